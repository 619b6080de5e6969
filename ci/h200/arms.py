"""Arms (a server and the governor in force on it) and plans (which arms, at which loads)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from suites.model import LoadSpec, TrafficClass

STEP_AT_5 = [[1, 4, 2], [5, 512, 0]]
PUBLISHED = [[1, 64, 3], [65, 101, 2], [102, 165, 1], [166, 256, 0]]  # of vLLM's documentation
ALL_LOADS = (1, 2, 4, 5, 8, 16, 32, 64, 128, 256)


@dataclass(frozen=True, slots=True)
class Arm:
    """`governor` None: the server as it is. `switches`: see ci/h200/ablations.py."""

    server: str
    governor: str | None = None
    options: Mapping[str, object] = field(default_factory=dict)
    switches: Mapping[str, object] = field(default_factory=dict)
    telemetry: bool = True
    profile: str | None = None  # of which server; None: the policy needs none


def _governed(server: str, tag: str) -> dict[str, Arm]:
    """Every governor of the sweep on one server; names end in where they run."""
    fixed = {f"fixed{k}{tag}": Arm(server, "fixed", {"depth": k}) for k in range(5)}
    return fixed | {
        f"schedule{tag}": Arm(server, "schedule", {"schedule": STEP_AT_5}),
        f"published{tag}": Arm(server, "schedule", {"schedule": PUBLISHED}),
        f"goodput{tag}": Arm(server, "goodput_table", profile=server),
        f"dspark{tag}": Arm(server, "dspark_argmax", profile=server),
        f"dspark_rest{tag}": Arm(server, "dspark_argmax", {"rest_after": 8}, profile=server),
    }


def _causes(server: str, tag: str) -> dict[str, Arm]:
    """One cause each, all at K pinned to 0 or on the schedule."""
    decodes = {"schedule": STEP_AT_5, "count": "decodes"}
    return {
        f"zero_skip{tag}": Arm(server, "fixed", {"depth": 0}, {"skip_drafter": True}),
        f"zero_look0{tag}": Arm(server, "fixed", {"depth": 0}, {"lookahead": 0}),
        f"schedule_decodes{tag}": Arm(server, "schedule", decodes),
    }


def _shape(prefix: str) -> dict[str, Arm]:
    armed, full = f"{prefix}armed", f"{prefix}full"
    return {
        f"{prefix}off": Arm(f"{prefix}off"),
        f"{prefix}off_pw": Arm(f"{prefix}off_pw"),
        f"{prefix}k2": Arm(f"{prefix}k2"),
        **{prefix + name: arm for name, arm in _governed(armed, "@armed").items()},
        **{prefix + name: arm for name, arm in _governed(full, "@full").items()},
        **{prefix + name: arm for name, arm in _causes(armed, "@armed").items()},
        **{prefix + name: arm for name, arm in _causes(full, "@full").items()},
    }


def _telemetry(server: str) -> dict[str, Arm]:
    return {
        f"telemetry{on}_k{depth}@{server}": Arm(server, "fixed", {"depth": depth}, telemetry=bool(on))
        for on in (0, 1)
        for depth in (0, 2)
    }


ARMS: dict[str, Arm] = {
    **_shape(""),
    **_shape("b_"),
    **_governed("v2", "@v2"),
    **_telemetry("full"),
    **_telemetry("b_full"),
    "trimmed@k2": Arm("k2", "dspark_argmax", profile="full"),
    "off_eager": Arm("off_eager"),
    "k2full": Arm("k2full"),
    **_governed("eager", "@eager"),
}


@dataclass(frozen=True, slots=True)
class Plan:
    """`bursts`: bursts a cell by concurrency (default 1); mode "closed": `requests` a stream instead."""

    arms: tuple[str, ...]
    concurrency: tuple[int, ...]
    traffic: tuple[TrafficClass, ...]
    mode: str = "burst"
    requests: int = 1
    bursts: Mapping[int, int] = field(default_factory=dict)

    def load(self, concurrency: int) -> LoadSpec:
        count = self.bursts.get(concurrency, 1) if self.mode == "burst" else self.requests
        return LoadSpec(
            concurrency=self.concurrency,
            mode=self.mode,
            requests_per_stream=count,
            timeout_s=60.0,
            route="completions",
        )


PROMPT_TOKENS = {"short": 100, "long": 1500}


def short(max_tokens: int = 128) -> TrafficClass:
    return TrafficClass("short", max_tokens=max_tokens)


def long(max_tokens: int = 128) -> TrafficClass:
    return TrafficClass("long", max_tokens=max_tokens)


FIT = tuple(f"fixed{k}@{server}" for server in ("armed", "full") for k in range(5))
RULES = ("schedule", "published", "goodput", "dspark")
GOVERNED = tuple(f"{rule}@{server}" for server in ("armed", "full") for rule in RULES)
CAUSES = (
    *("off", "off_pw", "fixed0@armed", "fixed0@full", "schedule@armed", "schedule@full", "k2", "fixed2@full"),
    *("zero_skip@armed", "zero_skip@full", "zero_look0@armed", "schedule_decodes@armed"),
)
MODES = (
    *("off", "off_eager", "k2", "k2full", "fixed2@full", "fixed2@armed", "fixed2@eager"),
    *("fixed0@full", "fixed0@armed", "fixed0@eager", "schedule@full", "schedule@armed", "schedule@eager"),
)
MODELS = ("off", "k2", "fixed4@full", "schedule@full", "goodput@full", "dspark@full", "dspark_rest@full")
PLANS: dict[str, Plan] = {
    "smoke": Plan(
        (
            "off",
            "off_pw",
            "k2",
            *(f"fixed{k}@{server}" for k in (0, 2) for server in ("armed", "full", "v2")),
        ),
        (1, 8),
        (short(64),),
    ),
    "fit": Plan(FIT, (1, 4, 8, 16, 32, 64, 128, 256), (short(48),)),
    "sweep": Plan(
        (
            "off",
            "k2",
            *(f"fixed{k}@full" for k in range(5)),
            "fixed0@armed",
            "fixed2@armed",
            *GOVERNED,
            "dspark_rest@full",
        ),
        ALL_LOADS,
        (short(),),
    ),
    "causes": Plan(CAUSES, (5, 8, 16), (short(),)),
    "v2": Plan(
        ("off", "fixed2@full", "fixed2@v2", "fixed0@v2", "schedule@v2", "dspark@v2", "trimmed@k2", "k2"),
        (1, 4, 5, 8, 16, 64),
        (short(),),
    ),
    "mixed": Plan(
        (
            *("off", "k2", "fixed2@full", "schedule@armed", "schedule_decodes@armed"),
            *("schedule@full", "goodput@full", "dspark@full"),
        ),
        (5, 12),
        (short(), long()),
        mode="closed",
        requests=4,
    ),
    "overhead": Plan((), (8, 64, 256), (short(),), bursts={8: 2}),
    "modes": Plan(MODES, (1, 5, 8, 16), (short(),)),
    "refit": Plan(tuple(f"fixed{k}@full" for k in range(5)), ALL_LOADS, (short(48),)),
    "models": Plan(MODELS, ALL_LOADS, (short(),)),
    "eight": Plan(
        (
            *("b_off", "b_k2", "b_fixed0@armed", "b_fixed2@armed", "b_schedule@armed"),
            *("b_fixed0@full", "b_fixed2@full", "b_schedule@full"),
        ),
        (1, 5, 8, 16, 64),
        (short(),),
    ),
}
