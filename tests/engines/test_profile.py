"""Profiles: shipped ones are complete and sourced, wrong ones are refused in one line, options override."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from engines.embedded.constants import DraftShape
from engines.embedded.profile import (
    PROFILES,
    EngineProfile,
    ProfileError,
    apply_options,
    load_profile,
    profile_names,
)

SHIPPED = (
    "gb10-qwen3.5-122b-mtp",
    "h100-llama3.1-8b-eagle",
    "h100-llama3.1-8b-suffix",
    "h200-qwen3-4b-eagle",
    "rtx5090-qwen3-4b-dflash",
    "sm80x4-pp4-mtp",
    "strix-halo-27b-mtp",
)
COMMUNITY = ["gb10-qwen3.5-122b-mtp", "sm80x4-pp4-mtp", "strix-halo-27b-mtp"]

GOOD = """
name = "t"
summary = "for tests"
k_max = 2
reference_context_tokens = 10
[sources]
k_max = "s"
reference_context_tokens = "s"
[binding]
hardware = "abacus"
target_model = "m"
drafter_class = "eagle"
engine_version = "e"
[hardware]
name = "abacus"
memory_bandwidth_roof_bytes_per_s = 100.0
memory_bandwidth_bytes_per_s = 90
flops_roof_per_s = 1000.0
flops_per_s = 900.0
roofline_sharpness = 2.0
[sources.hardware]
memory_bandwidth_roof_bytes_per_s = "s"
memory_bandwidth_bytes_per_s = "s"
flops_roof_per_s = "s"
flops_per_s = "s"
roofline_sharpness = "s"
[host]
step_s = 0.1
request_s = 0.01
launch_full_s = 0.2
launch_piecewise_s = 1.0
launch_eager_s = 5.0
verify_s = 0.05
draft_first_s = 0.1
draft_next_s = 0.05
[sources.host]
step_s = "s"
request_s = "s"
launch_full_s = "s"
launch_piecewise_s = "s"
launch_eager_s = "s"
verify_s = "s"
draft_first_s = "s"
draft_next_s = "s"
[target]
weight_bytes = 200.0
flops_per_token = 10.0
kv_bytes_per_token = 1.0
activation_bytes_per_token = 2.0
overhead_s = 0.5
[sources.target]
weight_bytes = "s"
flops_per_token = "s"
kv_bytes_per_token = "s"
activation_bytes_per_token = "s"
overhead_s = "s"
[drafter]
shape = "sequential"
[drafter.forward]
weight_bytes = 20.0
flops_per_token = 1.0
kv_bytes_per_token = 0.0
activation_bytes_per_token = 0.0
overhead_s = 0.1
[sources.drafter.forward]
weight_bytes = "s"
flops_per_token = "s"
kv_bytes_per_token = "s"
activation_bytes_per_token = "s"
overhead_s = "s"
[scheduler]
max_num_seqs = 8
max_num_batched_tokens = 64
max_model_len = 128
block_size = 16
kv_blocks = 64
[sources.scheduler]
max_num_seqs = "s"
max_num_batched_tokens = "s"
max_model_len = "s"
block_size = "s"
kv_blocks = "s"
[acceptance.by_class]
default = [0.8, 0.6]
[sources.acceptance.by_class]
default = "s"
[penalties]
capture_sizes = [1, 2, 4]
[sources.penalties]
capture_sizes = "s"
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "t.toml"
    path.write_text(text, encoding="utf-8")
    return path


def refusal(folder: Path, text: str) -> str:
    with pytest.raises(ProfileError) as caught:
        load_profile(write(folder, text))
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith("profile t.toml: ")
    return message


def constants(table: dict[str, object], prefix: str = "") -> Iterator[str]:
    """Dotted paths of everything in a TOML table that is not text."""
    for key, value in table.items():
        path = f"{prefix}{key}"
        if isinstance(value, dict):
            yield from constants(value, f"{path}.")
        elif not isinstance(value, str):
            yield path


class TestShipped:
    def test_names(self) -> None:
        assert profile_names() == SHIPPED

    @pytest.mark.parametrize("name", SHIPPED)
    def test_every_constant_has_a_source(self, name: str) -> None:
        table = tomllib.loads((PROFILES / f"{name}.toml").read_text(encoding="utf-8"))
        del table["sources"]
        profile = load_profile(name)
        assert profile.name == name
        assert set(profile.sources) == set(constants(table))
        assert all(len(source) > 3 for source in profile.sources.values())

    @pytest.mark.parametrize("name", COMMUNITY)
    def test_community_profiles_say_what_is_attributed(self, name: str) -> None:
        assert any("ATTRIBUTED" in source for source in load_profile(name).sources.values())

    def test_the_h200_profile_attributes_nothing(self) -> None:
        sources = load_profile("h200-qwen3-4b-eagle").sources.values()
        assert not any("ATTRIBUTED" in source for source in sources)

    def test_unknown_name_suggests_the_nearest(self) -> None:
        with pytest.raises(ProfileError, match=r"did you mean 'h200-qwen3-4b-eagle'\?"):
            load_profile("h200-qwen3-4b-eagel")
        with pytest.raises(ProfileError, match="known: gb10"):
            load_profile("zzz")


class TestReading:
    def test_a_file_of_ones_own(self, tmp_path: Path) -> None:
        profile = load_profile(write(tmp_path, GOOD))
        assert profile.hardware.memory_bandwidth_bytes_per_s == 90.0
        assert isinstance(profile.hardware.memory_bandwidth_bytes_per_s, float)
        assert profile.drafter.shape is DraftShape.SEQUENTIAL
        assert profile.penalties.capture_sizes == (1, 2, 4)
        assert profile.acceptance.by_class == {"default": (0.8, 0.6)}

    @pytest.mark.parametrize(
        ("old", "new", "said"),
        [
            ("step_s = 0.1", "stepp_s = 0.1", "host.stepp_s: no such constant; did you mean 'step_s'?"),
            ("step_s = 0.1", 'step_s = "fast"', "host.step_s = 'fast': not a number; write a number"),
            ("step_s = 0.1", "step_s = true", "host.step_s = True: not a number"),
            ("step_s = 0.1", "step_s = -0.1", "host.step_s = -0.1: negative; write a number >= 0"),
            ("step_s = 0.1", "step_s = nan", "host.step_s = nan: not a finite number"),
            ("step_s = 0.1", "step_s = inf", "host.step_s = inf: not a finite number"),
            ("step_s = 0.1\n", "\n", "host.step_s: missing; add it"),
            ("k_max = 2", "k_max = 2.5", "k_max = 2.5: not a whole number; write a whole number"),
            ("k_max = 2", "k_max = 0", "k_max = 0: must be above 0"),
            ("k_max = 2", "k_max = 3", "acceptance.by_class.default: 2 positions for k_max = 3"),
            ("max_num_seqs = 8", "max_num_seqs = 0", "scheduler.max_num_seqs = 0: must be >= 1"),
            (
                'shape = "sequential"',
                'shape = "tree"',
                "drafter.shape = 'tree': not one of sequential, block",
            ),
            ("bytes_per_s = 90", "bytes_per_s = 101", "above the roof 100"),
            ("sharpness = 2.0", "sharpness = 0.5", "hardware.roofline_sharpness = 0.5: must be >= 1"),
            ("[0.8, 0.6]", "[0.6, 0.8]", "unconditional acceptance never rises with position"),
            ("[0.8, 0.6]", "[1.8, 0.6]", "acceptance lies in 0..1"),
            ("[0.8, 0.6]", "0.8", "acceptance.by_class.default = 0.8: not a list"),
            ("default = [0.8, 0.6]", "chat = [0.8, 0.6]", "default: missing"),
            ("[1, 2, 4]", "[1, 4, 2]", "penalties.capture_sizes = [1, 4, 2]: must rise"),
            ("[1, 2, 4]", "[1, 2, 2]", "penalties.capture_sizes = [1, 2, 2]: must rise"),
            ("[1, 2, 4]", "[1, 2, 2.5]", "penalties.capture_sizes[2] = 2.5: not a whole number"),
            ('hardware = "abacus"', 'hardware = ""', "binding.hardware"),
            ("[binding]", "[bindings]", "bindings: no such constant; did you mean 'binding'?"),
            (
                "[penalties]",
                "[penalties]\npolicy_ignored = 3",
                "penalties.policy_ignored = 3: above k_max = 2",
            ),
            (
                "[penalties]",
                "[penalties]\ndrafter_starvation = 1.5",
                "drafter_starvation = 1.5: a factor in 0..1",
            ),
        ],
    )
    def test_wrong_values_are_refused(self, tmp_path: Path, old: str, new: str, said: str) -> None:
        text = GOOD.replace(old, new, 1)
        assert text != GOOD
        # a constant that is renamed, added or removed takes its source along, so that only the value is wrong
        if "[sources" not in new and said.startswith(("penalties.policy", "drafter_starv")):
            text = text.replace("[sources.penalties]", '[sources.penalties]\npolicy_ignored = "s"\n', 1)
        if "drafter_starvation" in new:
            text = text.replace('policy_ignored = "s"', 'drafter_starvation = "s"', 1)
        if new.startswith("chat"):
            text = text.replace('default = "s"', 'chat = "s"', 1)
        assert said in refusal(tmp_path, text)

    def test_a_constant_without_source_is_refused(self, tmp_path: Path) -> None:
        text = GOOD.replace('[sources.host]\nstep_s = "s"', "[sources.host]", 1)
        assert "host.step_s: has no source" in refusal(tmp_path, text)
        text = GOOD.replace('[sources.host]\nstep_s = "s"', '[sources.host]\nstep_s = " "', 1)
        assert "host.step_s: has no source" in refusal(tmp_path, text)

    def test_a_source_without_constant_is_refused(self, tmp_path: Path) -> None:
        text = GOOD.replace("[sources.host]", '[sources.host]\nlaunch_fulll_s = "s"', 1)
        said = refusal(tmp_path, text)
        assert "sources.host.launch_fulll_s: no such constant; did you mean 'host.launch_full_s'?" in said

    def test_experts(self, tmp_path: Path) -> None:
        names = ("experts", "experts_effective", "active", "expert_bytes")
        moe = "[target.moe]\n" + "\n".join(f"{n} = {v}" for n, v in zip(names, (4, "{}", 2, 1), strict=True))
        moe += "\n[sources.target]"
        sources = "[sources.target.moe]\n" + "".join(f'{name} = "s"\n' for name in names)
        for effective in (1, 5):
            text = GOOD.replace("[sources.target]", moe.format(effective), 1) + sources
            assert "target.moe.experts_effective" in refusal(tmp_path, text)
        good = GOOD.replace("[sources.target]", moe.format(3), 1) + sources
        found = load_profile(write(tmp_path, good)).target.moe
        assert found is not None
        assert found.experts_effective == 3.0

    def test_not_toml(self, tmp_path: Path) -> None:
        with pytest.raises(ProfileError, match=r"t\.toml: not TOML"):
            load_profile(write(tmp_path, "k_max = = 2"))
        (tmp_path / "t.toml").write_bytes(b"\xff\xfe")
        with pytest.raises(ProfileError, match=r"t\.toml: not TOML"):
            load_profile(tmp_path / "t.toml")

    def test_no_such_file(self, tmp_path: Path) -> None:
        with pytest.raises(ProfileError, match="cannot be read"):
            load_profile(tmp_path / "none.toml")


class TestOptions:
    @pytest.fixture
    def profile(self, tmp_path: Path) -> EngineProfile:
        return load_profile(write(tmp_path, GOOD))

    def test_none_changes_nothing(self, profile: EngineProfile) -> None:
        assert apply_options(profile, {}) == profile

    def test_overrides(self, profile: EngineProfile) -> None:
        changed = apply_options(
            profile,
            {
                "k_max": 1,
                "max_num_seqs": 4,
                "kv_blocks": 9,
                "penalties": {"piecewise_downgrade": True, "capture_sizes": [1, 2]},
                "host": {"level_sd": 0.3},
                "acceptance": {"spread": 0.5, "by_class": {"default": [0.9]}},
            },
        )
        assert (changed.k_max, changed.scheduler.max_num_seqs, changed.scheduler.kv_blocks) == (1, 4, 9)
        assert changed.scheduler.block_size == profile.scheduler.block_size
        assert changed.penalties.piecewise_downgrade
        assert changed.penalties.capture_sizes == (1, 2)
        assert changed.host.level_sd == 0.3
        assert changed.acceptance.by_class == {"default": (0.9,)}
        assert changed.target == profile.target
        assert changed.sources["k_max"] == "set by an option"
        assert changed.sources["scheduler.max_num_seqs"] == "set by an option"
        assert changed.sources["penalties.piecewise_downgrade"] == "set by an option"
        assert changed.sources["target.overhead_s"] == "s"

    def test_a_penalty_can_be_taken_away(self, profile: EngineProfile) -> None:
        assert apply_options(profile, {"penalties": {"capture_sizes": None}}).penalties.capture_sizes is None

    def test_a_confidence_head_can_be_given(self) -> None:
        profile = load_profile("h100-llama3.1-8b-eagle")
        changed = apply_options(profile, {"acceptance": {"confidence": {"slope": 2.0}}})
        assert changed.acceptance.confidence is not None
        assert (changed.acceptance.confidence.slope, changed.acceptance.confidence.noise) == (2.0, 0.0)
        assert apply_options(profile, {"acceptance": {"spread": 0.1}}).acceptance.confidence is not None

    def test_another_drafter_is_of_another_class(self, profile: EngineProfile) -> None:
        changed = apply_options(
            profile,
            {
                "drafter_class": "ngram",
                "drafter": {"shape": "ngram"},
                "acceptance": {"course": [[0, 0], [9, -1]]},
            },
        )
        assert (changed.drafter.shape, changed.binding.drafter_class) == ("ngram", "ngram")
        assert changed.drafter.forward == profile.drafter.forward
        assert changed.acceptance.course == ((0.0, 0.0), (9.0, -1.0))
        assert changed.sources["drafter.shape"] == changed.sources["drafter_class"] == "set by an option"

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"kmax": 1}, "option 'kmax': no such engine option; did you mean 'k_max'?"),
            ({"penalties": {"piecewise_downgrad": True}}, "did you mean 'piecewise_downgrade'?"),
            ({"penalties": True}, "option penalties = True: not a table"),
            ({"penalties": {"zero_depth_sync": 1}}, "penalties.zero_depth_sync = 1: not true or false"),
            ({"k_max": 5}, "2 positions for k_max = 5"),
            ({"k_max": "2"}, "option k_max = '2': not a whole number"),
            ({"max_num_seqs": -1}, "scheduler.max_num_seqs = -1"),
            ({"host": {"step_s": float("nan")}}, "not a finite number"),
            ({"target": {"overhead_s": 1}}, "option 'target': no such engine option"),
            ({"drafter": {"shape": "trie"}}, "drafter.shape = 'trie': not one of sequential, block, ngram"),
            ({"drafter_class": 3}, "option drafter_class = 3: not a text"),
            ({"acceptance": {"course": [[0, 1, 2]]}}, "points of [seconds, logit]"),
            ({"acceptance": {"course": [[5, 0], [5, 1]]}}, "its seconds must ascend"),
            ({"hardware": {"flops_per_s": 1e18}}, "hardware.flops_per_s = 1e+18: above the roof"),
        ],
    )
    def test_wrong_options_are_refused(
        self, profile: EngineProfile, options: dict[str, object], said: str
    ) -> None:
        with pytest.raises(ProfileError) as caught:
            apply_options(profile, options)
        assert said in str(caught.value)
        assert "\n" not in str(caught.value)
