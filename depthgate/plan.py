"""What is about to run: the suite, how it is sealed, on which clock, and where the records go."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from depthgate.exits import UsageError
from depthgate.load_drivers import LoadChoice
from loadgen.records import CellKey
from loadgen.run_files import cell_stem, life_stem
from loadgen.traffic import TrafficMix
from suites.model import Arm, EngineSpec, Suite

CLOCKS = ("wall", "virtual")


@dataclass(frozen=True, slots=True)
class RunPlan:
    """`seal`: state and sentence as `suites.seal` gives them, kept in the manifest for the judge.

    `trace`: engines keep observations for `depthgate replay`. `keep_journal`: requests stay JSON lines.
    `mix` is read before the run folder is made: a data set that is not there is a usage error.
    `done`, `manifest`: of a run that goes on (depthgate.resumption); empty and None for a new one.
    """

    suite: Suite
    mix: TrafficMix
    canonical: Mapping[str, object]
    sha256: str
    seal: Mapping[str, object]
    clock: str
    run_dir: Path
    reproducer: str | None = None
    overrides: tuple[str, ...] = field(default=())
    trace: bool = False
    keep_journal: bool = False
    load: LoadChoice = field(default_factory=LoadChoice)
    done: frozenset[CellKey] = frozenset()
    manifest: Mapping[str, object] | None = None

    @property
    def total_cells(self) -> int:
        """Cells to run: arms x concurrencies x repeats, less those that are done."""
        return sum(len(self.points(arm.name, repeat)) for repeat, arm in self.rounds())

    def rounds(self) -> Iterator[tuple[int, Arm]]:
        """(repeat, arm) with something to run: every repeat runs every arm once, in an order that rotates."""
        arms = self.suite.arms
        for repeat in range(self.suite.repeats):
            shift = repeat % len(arms)
            for arm in (*arms[shift:], *arms[:shift]):
                if self.points(arm.name, repeat):
                    yield repeat, arm

    def points(self, arm: str, repeat: int) -> tuple[int, ...]:
        """Concurrencies to run, in their order."""
        points = self.suite.load.concurrency
        return tuple(point for point in points if CellKey(arm, point, repeat) not in self.done)

    def life(self, arm: str, repeat: int) -> str:
        """Stem of what the engine of this arm and repeat writes; a second engine has files of its own."""
        points = self.points(arm, repeat)
        began = len(points) < len(self.suite.load.concurrency)
        return life_stem(arm, repeat, points[0] if began and points else None)

    def steps_path(self, arm: str, repeat: int) -> Path:
        """Where the engine of this arm and repeat journals its steps."""
        return self.run_dir / "steps" / f"{self.life(arm, repeat)}.jsonl"

    def trace_path(self, arm: str, repeat: int) -> Path | None:
        """Where the engine of this arm and repeat keeps what its governor saw; None when not asked for."""
        return self.run_dir / "trace" / f"{self.life(arm, repeat)}.jsonl" if self.trace else None

    def log_path(self, arm: str, repeat: int) -> Path:
        """Where what the engine prints goes."""
        return self.run_dir / "logs" / f"{self.life(arm, repeat)}.log"

    def requests_path(self, key: CellKey) -> Path:
        """Where the records of one cell go."""
        return self.run_dir / "requests" / f"{cell_stem(key)}.jsonl"


def new_run_dir(out: Path, name: str) -> Path:
    """`out/<name>-<UTC time>-<4 hex>`, so that two runs started in one second do not share it."""
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    return out / f"{name}-{stamp}-{secrets.token_hex(2)}"


def make_run_dir(run_dir: Path) -> Path:
    """The folder with its rooms, made now; UsageError where it cannot be, or is there already."""
    try:
        for room in ("requests", "steps"):
            (run_dir / room).mkdir(parents=True)
    except OSError as error:
        raise UsageError(
            f"--out {run_dir.parent}: cannot write there ({error.strerror}); give a folder that you own"
        ) from None
    return run_dir


def on_profile(suite: Suite, profile: str | None) -> Suite:
    """The suite on another profile of the embedded engine; None leaves it as it is."""
    if profile is None:
        return suite
    if suite.engine.kind != "embedded":
        raise UsageError(
            f"--profile {profile}: suite {suite.name!r} runs on {suite.engine.kind!r}; drop --profile"
        )
    return replace(suite, engine=replace(suite.engine, profile=profile), drafter_class=None)


def on_urls(suite: Suite, url: str | None, arm_urls: Mapping[str, str]) -> Suite:
    """The suite against servers that already run. `url` serves every arm without one of its own, in turn;

    without it, arms that have no URL are left out.
    """
    known = [arm.name for arm in suite.arms]
    for name in arm_urls:
        if name not in known:
            raise UsageError(
                f"--arm {name}=…: suite {suite.name!r} has no such arm; it has {', '.join(known)}"
            )
    arms = tuple(
        replace(arm, url=arm_urls.get(arm.name)) for arm in suite.arms if url or arm.name in arm_urls
    )
    if suite.baseline.name not in {arm.name for arm in arms}:
        base = suite.baseline.name
        raise UsageError(f"--arm: no server for {base!r}, which all is compared with; add --arm {base}=URL")
    return replace(suite, engine=EngineSpec(kind="openai", url=url, model=suite.engine.model), arms=arms)


def with_short_answers(suite: Suite, most: int) -> Suite:
    """Every answer of at most so many tokens. UsageError below 1, and for lengths that are drawn."""
    if most < 1:
        raise UsageError(f"--max-tokens {most}: must be 1 or more")
    traffic = []
    for each in suite.traffic:
        if not isinstance(each.max_tokens, int):
            raise UsageError(
                f"--max-tokens {most}: {each.name!r} draws its lengths; change them in the suite"
            )
        traffic.append(replace(each, max_tokens=min(each.max_tokens, most)))
    return replace(suite, traffic=tuple(traffic))


def on_one_arm(suite: Suite, name: str) -> Suite:
    """One arm alone, its own baseline: for a server that cannot switch. Nothing compares, figures remain."""
    (arm,) = (replace(arm, baseline=True, url=suite.engine.url) for arm in suite.arms if arm.name == name)
    return replace(suite, arms=(arm,), budgets=())
