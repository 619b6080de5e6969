"""House rules that no linter knows: rooms are this checkout, files stay small, the top level is dictated."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("depthgate", "engines", "governors", "loadgen", "reports", "reproducers", "suites")
TOP_LEVEL = {
    *ROOMS, "ci", "tests", "docs", "bench", "pyproject.toml", "Makefile", "README.md", "CHANGELOG.md",
    "CONTRIBUTING.md", "LICENSE", ".ci", ".github", ".gitignore",
}  # fmt: skip
FILE_LINES = 300
FUNCTION_LINES = 40


def sources() -> list[Path]:
    return [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]


@pytest.mark.parametrize("room", ROOMS)
def test_room_is_this_checkout(room: str) -> None:
    assert Path(import_module(room).__file__ or "").parents[1] == ROOT


def test_top_level_is_as_dictated() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert {line.split("/")[0] for line in listed.stdout.splitlines()} <= TOP_LEVEL


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_files_and_functions_stay_small(path: Path) -> None:
    text = path.read_text()
    tree = ast.parse(text)
    assert ast.get_docstring(tree), "the first line says what the module is for"
    assert len(text.splitlines()) <= FILE_LINES
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= FUNCTION_LINES, f"{node.name} has {length} lines"


def modules_after(statement: str) -> set[str]:
    """Top-level modules that a fresh interpreter holds after `statement`."""
    code = f"import sys\n{statement}\nprint(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(done.stdout.splitlines()[-1].split())


HEAVY = {"aiohttp", "datasets", "locust", "pandas", "plotly", "pyarrow", "rich", "scipy"}


def test_help_imports_nothing_heavy() -> None:
    statement = (
        "import contextlib, depthgate.__main__ as m\nwith contextlib.suppress(SystemExit): m.main(['--help'])"
    )
    assert not modules_after(statement) & (HEAVY | {"numpy"})


def test_driving_load_needs_no_reports_packages() -> None:
    assert not modules_after("import loadgen.load_command, depthgate.verbs.load") & {
        "datasets", "locust", "pandas", "plotly", "pyarrow", "scipy"
    }  # fmt: skip


def test_governors_stand_on_numpy_alone() -> None:
    assert not modules_after("import governors, governors.registry") & HEAVY
