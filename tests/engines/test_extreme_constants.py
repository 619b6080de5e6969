"""Whatever finite number a constant is set to: one line that names it refuses it, or the engine runs."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.embedded.assembly import assemble
from engines.embedded.bounds import check_profile
from engines.embedded.constants import MoeSpec
from engines.embedded.core import CoreSpec, EngineCore, RequestTooLong
from engines.embedded.governor_profile import governor_profile
from engines.embedded.profile import EngineProfile, ProfileError, apply_options, load_profile
from engines.embedded.requests import NewRequest
from engines.embedded.roofline import RooflineCost
from engines.embedded.specs import ConfidenceSpec
from tests.engines.fakes import RandomWindows
from tests.engines.watched import Watched

EXTREMES = (0, 5e-324, 1e-300, 1e-9, 40, 1e18, 1e300, 1.7e308, -1e-300, -40, -1e300)
WHOLE = (0, 1, 40, 10**6, 10**9, 10**18, 2**63 - 1, -1, -(2**63))


def filled() -> EngineProfile:
    """A shipped profile in which no optional number is absent, so that each can be set."""
    profile = load_profile("h200-qwen3-4b-eagle")
    target = dataclasses.replace(profile.target, moe=MoeSpec(8, 6.0, 2, 1e9), kv_window_tokens=64)
    return dataclasses.replace(
        profile,
        hardware=dataclasses.replace(profile.hardware, matvec_max_tokens=8),
        target=target,
        acceptance=dataclasses.replace(profile.acceptance, confidence=ConfidenceSpec()),
        penalties=dataclasses.replace(profile.penalties, draft_budget_tokens=9, policy_ignored=2),
    )


def numbers(spec: object, prefix: str = "") -> Iterator[tuple[str, float]]:
    for item in dataclasses.fields(spec):  # type: ignore[arg-type]
        value, path = getattr(spec, item.name), f"{prefix}{item.name}"
        if dataclasses.is_dataclass(value):
            yield from numbers(value, f"{path}.")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield path, value


def with_value(spec: object, path: str, value: float) -> object:
    name, _, rest = path.partition(".")
    inner = with_value(getattr(spec, name), rest, value) if rest else value
    return dataclasses.replace(spec, **{name: inner})  # type: ignore[type-var]


FILLED = filled()
PATHS = dict(numbers(FILLED))
VALUES = st.one_of(st.sampled_from(EXTREMES), st.floats(allow_nan=False, allow_infinity=False))


def run(profile: EngineProfile) -> None:
    """Prompts, drafts, a change of depth; the tables of policies. Warnings are errors."""
    spec = CoreSpec(
        profile.scheduler,
        profile.acceptance,
        profile.penalties,
        profile.k_max,
        speculative=True,
        schedule_armed=True,
    )
    governor_profile(profile)
    engine = Watched(EngineCore(spec, RooflineCost(profile), RandomWindows(0)))
    for seed in range(3):
        try:
            engine.submit(NewRequest(20, 12, acceptance_seed=seed))
        except RequestTooLong:
            return
    engine.run()
    engine.check_all_served()


def refusal(profile: EngineProfile) -> str | None:
    try:
        check_profile(profile)
    except ProfileError as error:
        return str(error)
    return None


def refused_or_run(profile: object, paths: list[str]) -> bool:
    assert isinstance(profile, EngineProfile)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        said = refusal(profile)
        if said is None:
            run(profile)
            return False
    assert "\n" not in said
    names = [path.split(".")[-1].replace("_roof", "") for path in paths]  # a roof, or what is above it
    assert any(name in said.replace("_roof", "") for name in names), said
    return True


@pytest.mark.parametrize("path", sorted(PATHS))
def test_one_constant_at_its_extremes(path: str) -> None:
    whole = isinstance(PATHS[path], int)
    refused = {
        value: refused_or_run(with_value(FILLED, path, value), [path])
        for value in (WHOLE if whole else EXTREMES)
    }
    assert refused[10**18 if whole else 1e300]
    assert refused[-1 if whole else -1e300]
    assert not refused_or_run(FILLED, [path])


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.dictionaries(st.sampled_from(sorted(PATHS)), VALUES, min_size=2, max_size=3))
def test_several_constants_together(changes: dict[str, float]) -> None:
    profile: object = FILLED
    for path, value in changes.items():
        whole = isinstance(PATHS[path], int)
        profile = with_value(profile, path, int(value) if whole else value)
    refused_or_run(profile, list(changes))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"host": {"level_sd": 40}}, "host.level_sd = 40: must be at most 3"),
        ({"host": {"level_sd": 1e300}}, "host.level_sd = 1e+300: must be at most 3"),
        ({"host": {"jitter_sd": 1e18}}, "host.jitter_sd = 1e+18: must be at most 3"),
        ({"host": {"level_sd": 10**400}}, "host.level_sd: a whole number beyond 64 bits"),
        (
            {"scheduler": {"max_num_seqs": 10**18}},
            "scheduler.max_num_seqs = 1e+18: must be at most 100000",
        ),
        ({"max_num_seqs": 10**30}, "max_num_seqs: a whole number beyond 64 bits"),
        ({"kv_blocks": 10**18}, "scheduler.kv_blocks = 1e+18: must be at most 1e+09"),
        ({"acceptance": {"course": [[0, 1e300]]}}, "at most 1e+09 s and 40 logits"),
        ({"penalties": {"capture_sizes": [10**18]}}, "capture_sizes: 1000000000000000000 tokens; must be"),
    ],
)
def test_options_out_of_range_are_one_line(options: dict[str, object], said: str) -> None:
    with pytest.raises(ProfileError) as caught:
        apply_options(load_profile("h200-qwen3-4b-eagle"), options)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_widest_engine_that_is_allowed_assembles() -> None:
    assembled = assemble("h200-qwen3-4b-eagle", "goodput_table", {}, {"max_num_seqs": 100_000})
    assert assembled.core.limits.max_num_seqs == 100_000
