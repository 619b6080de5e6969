"""Whether answers are as long as was asked: a server may take max_tokens or ignore_eos and pass them over."""

from __future__ import annotations

from collections.abc import Iterator

from loadgen.records import Outcome, RequestRecord

SPOILT_SHARE = 0.01  # of answers beyond max_tokens: from here on the load is not the suite's


class AskedLengths:
    """Tallies the requests of a cell that are done and whose tokens are known."""

    def __init__(self) -> None:
        self._known = 0
        self._short = 0
        self._long = 0

    def see(self, least_tokens: int | None, record: RequestRecord) -> None:
        """`least_tokens`: what the server was asked for at least, None = it could stop when it liked."""
        if record.outcome is not Outcome.DONE or record.output_tokens is None:
            return
        self._known += 1
        self._long += record.output_tokens > record.max_tokens
        self._short += least_tokens is not None and record.output_tokens < least_tokens

    def add(self, other: AskedLengths) -> None:
        """Another tally, of other requests of the cell."""
        self._known += other._known
        self._short += other._short
        self._long += other._long

    def notes(self) -> Iterator[str]:
        """What a reader should know."""
        if self._short:
            yield (
                f"{self._of(self._short)} are shorter than was asked (ignore_eos or min_tokens): "
                "the server stopped by itself, figures are of what came"
            )
        if self._long and not self._spoilt:
            yield f"{self._of(self._long)} are longer than max_tokens"

    def faults(self) -> Iterator[str]:
        """Why the cell did not carry the load that was asked for."""
        if self._spoilt:
            yield f"max_tokens ignored: {self._of(self._long)} are longer; does the server take the field?"

    @property
    def _spoilt(self) -> bool:
        return self._long > SPOILT_SHARE * self._known

    def _of(self, count: int) -> str:
        return f"{count} of {self._known} answers ({100 * count / self._known:.3g} %)"
