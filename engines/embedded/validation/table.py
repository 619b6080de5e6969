"""A table of figures with its source, its split and its free constants, read from validation/data/."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from engines.embedded.bounds import check_profile
from engines.embedded.schema import nearest, read_table
from engines.embedded.validation.cells import Cell, read_cells
from engines.embedded.validation.setting import Setting, base_setting, placed
from governors.profile import ProfileError

__all__ = ["DATA", "Cell", "Table", "load_table", "table_names"]

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True, slots=True)
class Constant:
    """A free constant: ARM/PATH of one arm or PATH of all; log-normal prior `start` x/÷ exp(`sd`); bounds.

    `why`: where start and bounds come from.
    """

    path: str
    start: float
    low: float
    high: float
    sd: float
    why: str


@dataclass(frozen=True, slots=True)
class Arm:
    """How an arm drafts. `depth` None: the cell says it. `steps`: [low, high, K] by batch or by context.

    why   where depth and drafter come from
    kind  off = no drafter; fixed; trim = per-request windows that maximise tokens a second (DSpark, D-Cut)
    by    what `steps` count: batch | context
    baseline   the arm without speculation beside it
    """

    kind: str
    why: str
    depth: int | None = None
    armed: bool = False
    steps: tuple[tuple[int, ...], ...] = ()
    by: str = "batch"
    baseline: str = "off"


@dataclass(frozen=True, slots=True)
class Rule:
    """Cells that a split fits on: those whose arm, quantity, batch, context and depth are listed."""

    arm: tuple[str, ...] = ()
    quantity: tuple[str, ...] = ()
    batch: tuple[int, ...] = ()
    context: tuple[int, ...] = ()
    depth: tuple[int, ...] = ()

    def covers(self, cell: Cell) -> bool:
        """An empty list covers all."""
        pairs = (
            (self.arm, cell.arm),
            (self.quantity, cell.quantity),
            (self.batch, cell.batch),
            (self.context, cell.context_tokens),
            (self.depth, cell.depth),
        )
        return all(not listed or value in listed for listed, value in pairs)


@dataclass(frozen=True, slots=True)
class Header:
    """The TOML of a table. `leave_one_out`: cells that the split fits on are predicted one by one as well.

    `answer_tokens`: step_s is the mean over a burst of answers of this length, whose requests end one by one;
    None = over steps with the whole batch.
    """

    title: str
    source: str
    split: str
    base: str
    leave_one_out: bool
    fit: tuple[Rule, ...]
    free: tuple[Constant, ...]
    arms: Mapping[str, Arm]
    set_sources: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    answer_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """`settings`: arm -> start; `fitted[i]`: the split fits on `cells[i]`."""

    name: str
    header: Header
    settings: Mapping[str, Setting]
    cells: tuple[Cell, ...]
    fitted: tuple[bool, ...]


def table_names() -> tuple[str, ...]:
    """Tables that ship, sorted."""
    return tuple(sorted(path.stem for path in DATA.glob("*.toml")))


def load_table(name: str) -> Table:
    """The table and its cells. Raises ProfileError naming what does not fit."""
    try:
        text = tomllib.loads((DATA / f"{name}.toml").read_text(encoding="utf-8"))
    except ValueError as error:
        raise ProfileError(f"table {name}: no TOML: {error}") from None
    if not isinstance(text.get("arms"), dict):
        raise ProfileError(f"table {name}: describes no arm; add [arms.NAME]")
    constants, own = text.pop("set", {}), {arm: each.pop("set", {}) for arm, each in text["arms"].items()}
    header = read_table(Header, text, "")
    unsourced = set(constants) - set(header.set_sources)
    if unsourced:
        raise ProfileError(f"table {name}: set.{min(unsourced)} has no source; add it under [set_sources]")
    settings = {arm: base_setting(header.base, {**constants, **own[arm]}) for arm in header.arms}
    for constant in header.free:
        _check_constant(name, constant, settings)
    cells = read_cells(DATA / f"{name}.csv")
    for cell in cells:
        if cell.arm not in settings:
            raise ProfileError(
                f"table {name}: arm {cell.arm!r} of a cell is not described; add [arms.{cell.arm}]"
            )
    return Table(name, header, settings, cells, tuple(_is_fitted(header, cell) for cell in cells))


def _check_constant(name: str, constant: Constant, settings: Mapping[str, Setting]) -> None:
    """ProfileError: an unknown arm or constant, a start outside its bounds, a bound above the roof."""
    where = f"table {name}: {constant.path}"
    arms, slash, path = constant.path.rpartition("/")
    for arm in arms.split(",") if slash else settings:
        if arm not in settings:
            raise ProfileError(f"{where}: no arm {arm!r}; {nearest(arm, settings)}")
        for end in (constant.low, constant.high):
            try:
                check_profile(placed(settings[arm], path, end).profile)
            except ProfileError as error:
                raise ProfileError(f"{where}: its bound cannot be: {error}") from None
    if not 0 < constant.low <= constant.start <= constant.high:
        raise ProfileError(f"{where} = {constant.start:g}: outside {constant.low:g}..{constant.high:g}")


def _is_fitted(header: Header, cell: Cell) -> bool:
    return any(rule.covers(cell) for rule in header.fit)
