"""The figures that ship with the engine against the tables and measurements that they were copied from."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from engines.embedded.validation.table import DATA, Cell, load_table, table_names
from governors.profile import ProfileError
from tests.shared_files import shared_file

MEASURED = Path(__file__).parents[2] / "docs" / "measured" / "h200-2026-11-30" / "cells.csv"


def published(name: str) -> Any:
    return json.loads(shared_file(f"tables/{name}.json").read_text())


def cells(name: str, quantity: str = "") -> list[Cell]:
    return [cell for cell in load_table(name).cells if not quantity or cell.quantity == quantity]


def by_arm(name: str, quantity: str) -> dict[str, list[float]]:
    """Arm -> its figures in the order of the file."""
    found: dict[str, list[float]] = {}
    for cell in cells(name, quantity):
        found.setdefault(cell.arm, []).append(cell.value)
    return found


def off(arms: dict[str, Any]) -> dict[str, Any]:
    """The tables' no_spec is the arm off."""
    return {"off" if name == "no_spec" else name: values for name, values in arms.items()}


def test_vllm_step_times() -> None:
    stats = published("vllm_eagle_step_cost")["batch_stats"]
    known = {(int(b), int(k)): ms / 1e3 for b, row in stats.items() for k, ms in row.items()}
    found = {(cell.batch, cell.depth): cell.value for cell in cells("vllm32374-eagle")}
    assert found == pytest.approx(known, rel=1e-6)


def test_h20() -> None:
    table = published("h20_qwen3_8b_dcut")
    known = [ms / 1e3 for row in table["verify_cost_ms"]["rows"] for ms in row]
    found = cells("h20-qwen3-8b-dcut", "trimmed_step_s")
    assert [cell.value for cell in found] == pytest.approx(known)
    assert {cell.tokens for cell in found} == {4, 8, 12, 16}
    assert by_arm("h20-qwen3-8b-dcut", "ratio") == table["speedup_vs_no_spec"]["qwen3_8b"]
    row = [ms / 1e3 for ms in table["moe_35b_a3b_tp2_verify_cost_ms_bs64"]]
    assert [cell.value for cell in cells("h20-35b-a3b-dcut", "trimmed_step_s")] == pytest.approx(row)
    assert by_arm("h20-35b-a3b-dcut", "ratio") == table["speedup_vs_no_spec"]["moe_35b_a3b"]


def test_mi355x_and_gemma() -> None:
    mi355x, gemma = published("mi355x_deepseek_v4_tp8"), published("h100nvl_gemma4_31b_context")
    assert by_arm("mi355x-deepseek-v4", "tokens_per_s") == off(mi355x["arms"])
    assert by_arm("h100nvl-gemma4-context", "tokens_per_s") == off(gemma["arms"])
    assert [c.context_tokens for c in cells("h100nvl-gemma4-context")[:4]] == gemma["context"]


@pytest.mark.parametrize(("key", "name"), [("sglang_h100", "sglang"), ("vllm", "vllm")])
def test_eagle_paper(key: str, name: str) -> None:
    table = published("h100_llama31_8b_eagle")[key]
    found = by_arm(f"h100-eagle3-paper-{name}", "ratio")
    assert found == {"eagle": table["eagle"], "eagle3": table["eagle3"]}
    assert [c.batch for c in cells(f"h100-eagle3-paper-{name}") if c.arm == "eagle"] == table["batch"]


def test_rtx5090() -> None:
    table = published("rtx5090_qwen3_4b")
    known = {**off(table["arms"]), "vllm_dflash": table["vllm_dflash"]}
    assert by_arm("rtx5090-qwen3-4b", "tokens_per_s") == known
    for quantity, key in (("draft_s", "draft"), ("target_s", "verify")):
        found = by_arm("rtx5090-qwen3-4b", quantity)["dflash"]
        assert found == pytest.approx([ms / 1e3 for ms in table["step_ms"][key]])
    histogram = table["accepted_length_histogram"]["dflash"]
    curve = load_table("rtx5090-qwen3-4b").settings["dflash"].profile.acceptance.by_class["default"]
    assert curve == pytest.approx([sum(histogram[k:]) / sum(histogram) for k in range(1, 8)], abs=1e-4)


@pytest.mark.parametrize(
    ("file", "row", "name"),
    [
        ("gb10_community", 2, "gb10-gemma4-26b-a4b"),
        ("strix_halo_community", 0, "strix-27b-q4"),
        ("strix_halo_community", 1, "strix-80b"),
    ],
)
def test_community_rows(file: str, row: int, name: str) -> None:
    arms = published(file)["rows"][row]["arms"]
    known = {arm: list(figures.values()) for arm, figures in off(arms).items()}
    assert by_arm(name, "tokens_per_s") == known


def test_gb10_27b_holds_both_precisions() -> None:
    rows = published("gb10_community")["rows"]
    known = {
        f"{arm}_{precision}": list(figures.values())
        for row, precision in zip(rows, ("nvfp4", "fp8"), strict=False)
        for arm, figures in off(row["arms"]).items()
    }
    assert by_arm("gb10-qwen3.8-27b", "tokens_per_s") == known


def test_gb10_122b_leaves_out_the_range() -> None:
    row = published("gb10_community")["rows"][3]["arms"]
    assert by_arm("gb10-qwen3.5-122b", "tokens_per_s") == {"fixed_2": [59.6, 232.0], "schedule": [50.0]}
    assert row["fixed_2"] == {"1": 59.6, "8": 232}
    assert isinstance(row["schedule [[1,4,2],[5,512,0]]"]["8"], list)


@pytest.mark.parametrize(("row", "name"), [(2, "strix-27b-awq"), (3, "strix-35b-a3b")])
def test_strix_by_depth(row: int, name: str) -> None:
    known = published("strix_halo_community")["rows"][row]["by_depth"]
    assert [cell.value for cell in cells(name)] == known
    assert [cell.depth for cell in cells(name)] == list(range(len(known)))


def geometric_mean(values: Iterable[float]) -> float:
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs))


NAMES = {"nospec": "off", "nospec_pw": "off_piecewise", "k2_pw": "k2_piecewise", "dyn": "schedule"}


@pytest.mark.parametrize(("file", "campaign"), [("step_times", "first"), ("second_step_times", "second")])
def test_h200_campaigns(file: str, campaign: str) -> None:
    periods: dict[tuple[str, int], list[float]] = {}
    with shared_file(f"h200/measured/{file}.csv").open(newline="") as table:
        for row in csv.DictReader(table):
            whole = row["kind"] == "burst" and row["nreq"] == row["c"] and row["plen"] == "128"
            arm = row.get("arm") or row["name"]
            if whole and row.get("model", "q4b") == "q4b" and arm != "k2_v2":
                key = (f"{NAMES.get(arm, arm)}_{campaign}", int(row["c"]))
                periods.setdefault(key, []).append(float(row["period_ms"]) / 1e3)
    found = {
        (cell.arm, cell.batch): cell.value
        for cell in cells("h200-qwen3-4b-bursts")
        if cell.arm.endswith(campaign)
    }
    assert found == pytest.approx({key: geometric_mean(values) for key, values in periods.items()}, rel=1e-6)


def test_h200_over_http() -> None:
    """Every cell of both tables is the geometric mean over the rounds of its plan."""
    rounds: dict[tuple[str, str, int], list[float]] = {}
    with MEASURED.open(newline="") as table:
        for row in csv.DictReader(table):
            if row["mode"] == "burst" and not row["invalid"]:
                time_ms = row["tpot_p50_ms" if row["arm"] in ("off", "off_pw", "b_off") else "step_ms"]
                key = (row["plan"], row["arm"].replace("@", "_").removeprefix("b_"), int(row["concurrency"]))
                rounds.setdefault(key, []).append(float(time_ms or "nan") / 1e3)
    for cell in cells("h200-qwen3-4b-http"):
        arm, _, plan = cell.arm.partition("_in_")
        measured = rounds[plan, "off_pw" if arm == "off_piecewise" else arm, cell.batch]
        assert cell.value == pytest.approx(geometric_mean(measured), rel=1e-6), cell
    for cell in cells("h200-qwen3-8b-http"):
        assert cell.value == pytest.approx(geometric_mean(rounds["eight", cell.arm, cell.batch]), rel=1e-6)


@pytest.mark.parametrize("name", table_names())
def test_every_constant_and_arm_has_a_source(name: str) -> None:
    header = load_table(name).header
    assert all(constant.why.strip() for constant in header.free)
    assert all(arm.why.strip() for arm in header.arms.values())
    assert header.source
    assert header.split


@pytest.mark.parametrize("name", table_names())
def test_rates_stay_below_their_roofs(name: str) -> None:
    table = load_table(name)
    for constant in table.header.free:
        for rate, roof in (
            ("memory_bandwidth_bytes_per_s", "memory_bandwidth_roof_bytes_per_s"),
            ("flops_per_s", "flops_roof_per_s"),
        ):
            if constant.path.endswith(f"hardware.{rate}"):
                assert all(
                    constant.high <= getattr(each.profile.hardware, roof) for each in table.settings.values()
                )


def test_a_bound_above_the_roof_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from engines.embedded.validation import table as module

    source = module.DATA / "mi355x-deepseek-v4"
    text = source.with_suffix(".toml").read_text().replace("high = 64e12", "high = 65e12")
    (tmp_path / "bad.toml").write_text(text)
    (tmp_path / "bad.csv").write_text(source.with_suffix(".csv").read_text())
    monkeypatch.setattr(module, "DATA", tmp_path)
    with pytest.raises(
        ProfileError, match=r"memory_bandwidth_bytes_per_s: its bound cannot be: .*above the roof"
    ):
        load_table("bad")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("59.6", "nan", "row 1: value = nan: must be above 0 and finite"),
        ("59.6", "0", "row 1: value = 0: must be above 0"),
        ("59.6", "fast", "row 1: could not convert string to float: 'fast'"),
        (",8,", ",0,", "row 2: batch, depth, context_tokens or tokens is below 0"),
        (",8,", ",8.5,", "row 2: invalid literal for int"),
        ("tokens_per_s,fixed_2,1", "token_per_s,fixed_2,1", "did you mean 'tokens_per_s'"),
        ("noise", "nois", "row 1: no column 'noise'; add it to the header"),
    ],
)
def test_a_spoiled_row_is_named(
    old: str, new: str, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    name = "gb10-qwen3.5-122b"
    for suffix in ("csv", "toml"):
        text = (DATA / f"{name}.{suffix}").read_text()
        spoiled = text.replace(old, new, 1) if suffix == "csv" else text
        (tmp_path / f"{name}.{suffix}").write_text(spoiled)
    monkeypatch.setattr("engines.embedded.validation.table.DATA", tmp_path)
    with pytest.raises(ProfileError) as caught:
        load_table(name)
    assert said in str(caught.value)
    assert str(caught.value).startswith(f"{name}.csv: row ")
