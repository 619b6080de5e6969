"""What a response brought: each read with its stamp, kept as raw bytes, looked into when there is time.

A read costs a stamp, three appends and a look at its last bytes. Framing and JSON are undone when the answer
has ended: nothing is parsed while streams are read.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence

import numpy as np

from loadgen.framing import Framing, FramingError
from loadgen.transcript import Transcript, TranscriptReader

Clock = Callable[[], float]

PARSE_ABOVE = 1 << 18  # bytes of one stream kept unparsed at most
MOST_BYTES = 1 << 26  # of one answer, some 200,000 tokens: a server that never stops must not fill the memory
HEAD = 4096  # bytes of a body kept for an error's words
BLANK = b"\r\n\r\n"  # what the last read of a chunked answer ends with
LAST_CHUNK = b"\r\n0\r\n\r\n"  # what it nearly always ends with; a body that says so too is found out later


class Reads:
    """One response: when each read came, how many raw bytes were there by then, and the bytes.

    asked_s   when the request was handed over to be sent; None = it was not
    times     seconds, of every read; `ends`: raw bytes received by then
    lost      what ended the connection in the middle of the response; None = nothing did
    fault     why the rest was not read: no HTTP, or no end; None = it was
    streams   False: the body is no event stream, keep it whole for `text()`
    """

    __slots__ = (
        "_framing",
        "_head",
        "_lazy",
        "_looked",
        "_over",
        "_pieces",
        "_raw",
        "_reader",
        "_streams",
        "asked_s",
        "ends",
        "fault",
        "lost",
        "times",
    )

    def __init__(self, streams: bool = True) -> None:
        self.asked_s: float | None = None
        self.times = array("d")
        self.ends = array("q")
        self.lost: BaseException | None = None
        self.fault: str | None = None
        self._streams = streams
        self._pieces: list[bytes] = []  # raw, not looked into
        self._raw = self._looked = 0
        self._lazy = False  # chunked, and the first of its body was sound
        self._over = False  # no more is awaited
        self._framing = Framing()
        self._head = b""
        self._reader: TranscriptReader | None = None

    @property
    def first_s(self) -> float | None:
        """The first read, headers included; None = nothing came."""
        return self.times[0] if self.times else None

    @property
    def status(self) -> int | None:
        """Of the head; None = it has not come."""
        return self._framing.status

    @property
    def headers(self) -> dict[str, str]:
        """Of the head, by lower-case name."""
        return self._framing.headers

    @property
    def reusable(self) -> bool:
        """The response is whole and its connection may serve another."""
        return self._over and self._framing.reusable and self.fault is None

    @property
    def total(self) -> int:
        """Body bytes received."""
        self._look()
        return self._framing.total

    @property
    def last_s(self) -> float | None:
        """When the last byte of the body came; None = there was none."""
        return self.arrivals([self.total])[0] if self.total else None

    @property
    def raw_bytes(self) -> int:
        """Bytes received, framing included."""
        return self._raw

    def keep(self, now_s: float, piece: bytes) -> bool:
        """Stamps and keeps a read; whether it was the last one, or no more is wanted."""
        self.times.append(now_s)
        self._raw += len(piece)
        self.ends.append(self._raw)
        self._pieces.append(piece)
        if not self._lazy:
            return self._whole()
        if len(piece) < len(LAST_CHUNK):
            piece = b"".join(self._pieces[-len(LAST_CHUNK) :])
        if piece.endswith(LAST_CHUNK):
            self._over = True
            return True
        if piece.endswith(BLANK) or self._raw - self._looked > PARSE_ABOVE:
            return self._whole()
        return False

    def ended(self, error: BaseException | None) -> None:
        """The connection is gone in the middle of the response: by an error, or by its orderly end."""
        self._look()
        self._framing.closed()
        if not self._framing.over:
            self.lost = error or EOFError("connection closed by the server")

    def head(self) -> bytes:
        """The first bytes of the body, for an error's words."""
        self._look()
        return (self._head + b"".join(self._framing.pieces))[:HEAD] if len(self._head) < HEAD else self._head

    def text(self) -> str:
        """The whole body, when it is no event stream."""
        self._look()
        return b"".join(self._framing.pieces).decode("utf-8", "replace")

    def transcript(self, max_tokens: int) -> Transcript:
        """Parses what is left; the expensive part, kept off the moments when streams are read."""
        self._look()
        return self._parse().transcript(max_tokens)

    def arrivals(self, offsets: Sequence[int]) -> tuple[float, ...]:
        """When the byte before each offset of the body had arrived."""
        if not offsets:
            return ()
        raw_ends = self._framing.raw_ends(np.asarray(offsets, dtype=np.int64))
        return tuple(np.asarray(self.times)[np.searchsorted(self.ends, raw_ends)].tolist())

    def _whole(self) -> bool:
        framing = self._framing
        self._look()
        self._lazy = framing.chunked and framing.total > 0
        if self._streams and sum(map(len, framing.pieces)) > PARSE_ABOVE:
            self._parse()
        if self._raw > MOST_BYTES and self.fault is None and not framing.over:
            self.fault = f"more than {MOST_BYTES >> 20} MiB in one answer"
        self._over = framing.over or self.fault is not None
        return self._over

    def _look(self) -> None:
        """Undoes the framing of what has come."""
        if not self._pieces:
            return
        raw = b"".join(self._pieces)
        self._pieces.clear()
        self._looked = self._raw
        if self.fault is None:
            try:
                self._framing.feed(raw)
            except FramingError as error:
                self.fault = f"the answer is not HTTP: {error}"

    def _parse(self) -> TranscriptReader:
        pieces = self._framing.pieces
        for piece in pieces:
            if len(self._head) >= HEAD:
                break
            self._head = (self._head + piece)[:HEAD]
        reader = self._reader = self._reader or TranscriptReader()
        reader.read(pieces)
        pieces.clear()
        return reader
