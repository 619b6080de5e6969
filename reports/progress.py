"""What a run shows while it goes on: a grid of tokens/s and a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections import Counter
from statistics import fmean
from types import TracebackType
from typing import TYPE_CHECKING, Self

from reports.formats import number
from reports.markup import showable
from suites.grammar import counted

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.live import Live
    from rich.progress import Progress
    from rich.table import Table
    from rich.text import Text


class RunProgress:
    """`with RunProgress(total_cells, title, console) as p:` then cell_started, request_done ..., cell_done.

    The bar moves by cells; inside a cell by requests, once a cell of the same concurrency has shown how many
    there are. Safe to call from an event loop: nothing here waits.
    """

    def __init__(self, total_cells: int, title: str, console: Console) -> None:
        self._total = total_cells
        self._title = showable(title)
        self._console = console
        self._figures: dict[tuple[str, int], list[float | None]] = {}
        self._current: tuple[str, int] | None = None
        self._done = 0
        self._requests = 0
        self._requests_of: Counter[int] = Counter()
        self._start_s = time.monotonic()
        self._live: Live | None = None
        self._bar: Progress | None = None

    def __enter__(self) -> Self:
        self._start_s = time.monotonic()
        if self._console.is_terminal and not self._console.quiet:
            self._bar = self._new_bar()
            self._live = self._new_live()
            self._live.start()
        else:
            self._line(f"{self._title}: {counted(self._total, 'cell')}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
        took_s = time.monotonic() - self._start_s
        self._line(f"{self._title}: {self._done} of {counted(self._total, 'cell')} in {took_s:.1f} s")

    def cell_started(self, arm: str, concurrency: int, repeat: int) -> None:
        """The cell that request_done counts for, until it is done."""
        self._current = (arm, concurrency)
        self._requests = 0
        self._figures.setdefault((arm, concurrency), [])
        self._refresh()

    def request_done(self) -> None:
        """One more request of the current cell ended, however."""
        self._requests += 1
        self._refresh()

    def cell_done(
        self, arm: str, concurrency: int, repeat: int, tokens_per_s: float | None, note: str = ""
    ) -> None:
        """The cell's throughput, None = unknown; `note` is shown in plain lines."""
        self._figures.setdefault((arm, concurrency), []).append(tokens_per_s)
        self._requests_of[concurrency] = max(self._requests_of[concurrency], self._requests)
        self._done += 1
        self._requests = 0
        self._current = None
        self._refresh()
        if self._live is None:
            said = f", {note}" if note else ""
            where = f"{arm} c={concurrency} repeat {repeat}"
            self._line(f"[{self._done}/{self._total}] {where}: {number(tokens_per_s)} tokens/s{said}")

    def _line(self, line: str) -> None:
        self._console.print(showable(line), markup=False, highlight=False, soft_wrap=True)

    def _new_live(self) -> Live:
        from rich.live import Live

        return Live(get_renderable=self._render, console=self._console, refresh_per_second=5, transient=True)

    def _new_bar(self) -> Progress:
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

        bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            console=self._console,
            expand=True,
        )
        bar.add_task("starting", total=self._total)
        return bar

    def _refresh(self) -> None:
        if self._bar is None:
            return
        inside = 0.0
        words = f"{self._done}/{counted(self._total, 'cell')}"
        if self._current is not None:
            arm, concurrency = self._current
            expected = self._requests_of[concurrency]
            inside = min(self._requests / expected, 0.99) if expected else 0.0
            words += f", {showable(arm)[:20]} c={concurrency}: {counted(self._requests, 'request')} done"
        self._bar.update(self._bar.task_ids[0], completed=self._done + inside, description=words)

    def _render(self) -> Group:
        from rich.console import Group

        assert self._bar is not None
        return Group(self._grid(), self._bar)

    def _grid(self) -> Table:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        concurrencies = sorted({concurrency for _, concurrency in self._figures})
        table = Table(
            title=Text(f"{self._title}: tokens/s"), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False
        )
        table.add_column("arm", max_width=24, overflow="ellipsis", no_wrap=True)
        for concurrency in concurrencies:
            table.add_column(f"c={concurrency}", justify="right", no_wrap=True)
        for arm in dict.fromkeys(arm for arm, _ in self._figures):
            table.add_row(
                Text(showable(arm)), *(self._cell(arm, concurrency) for concurrency in concurrencies)
            )
        return table

    def _cell(self, arm: str, concurrency: int) -> Text:
        """Mean over the repeats so far; the cell that runs now is marked."""
        from rich.text import Text

        figures = self._figures.get((arm, concurrency), [])
        known = [figure for figure in figures if figure is not None]
        running = (arm, concurrency) == self._current
        if not figures:
            return Text("…" if running else "·", style="bold cyan" if running else "dim")
        shown = number(fmean(known)) if known else number(None)
        return Text(shown, style="bold cyan" if running else "")
