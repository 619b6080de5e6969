"""Policies of other distributions, through a fake one on sys.path."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from governors.contract import DepthLimits
from governors.entry import GovernorContext, GovernorError
from governors.registry import build_governor, governor_entry, governor_names
from tests.governors.observations import observation

GOOD = """
from governors.entry import GovernorEntry
from governors.fixed import Fixed

ENTRY = GovernorEntry(
    name="always_one", summary="K=1", layer="D", source="a test", build=lambda options, context: Fixed(1)
)
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    """install(distribution, entry points, source) puts a distribution and its one module on sys.path."""

    def installed(distribution: str, points: dict[str, str], source: str) -> None:
        site = tmp_path / distribution
        info = site / f"{distribution}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
        lines = [f"{name} = {target}" for name, target in points.items()]
        (info / "entry_points.txt").write_text("\n".join(["[depthgate.governors]", *lines, ""]))
        (site / f"{distribution}.py").write_text(source)
        monkeypatch.syspath_prepend(str(site))
        monkeypatch.delitem(sys.modules, distribution, raising=False)

    return installed


def test_an_installed_policy_is_listed_built_and_run(install) -> None:  # type: ignore[no-untyped-def]
    install("acme_one", {"always_one": "acme_one:ENTRY"}, GOOD)
    assert governor_names()[-1] == "always_one"
    assert "acme_one" not in sys.modules  # listing loads nothing
    governor = build_governor("always_one", {}, GovernorContext(DepthLimits(3, 8)))
    assert governor.decide(observation()).depth_next == 1
    with pytest.raises(GovernorError, match="always_one has no option 'depth'; it takes none"):
        build_governor("always_one", {"depth": 1}, GovernorContext(DepthLimits(3, 8)))
    with pytest.raises(GovernorError, match="did you mean 'always_one'"):
        governor_entry("always_on")


@pytest.mark.parametrize(
    ("target", "source", "said"),
    [
        (
            "acme_bad:ENTRY",
            "raise RuntimeError('no GPU')",
            "does not load: RuntimeError: no GPU; mend or uninstall",
        ),
        ("acme_bad:ENTRY", "import not_a_module_at_all", "does not load: ModuleNotFoundError"),
        ("acme_bad:MISSING", GOOD, "does not load: AttributeError"),
        ("acme_bad:ENTRY", "ENTRY = 3", "is a int; point it at a governors.entry.GovernorEntry"),
        ("acme_bad:ENTRY", GOOD, "is named 'always_one' in its entry; use one name for both"),
    ],
)
def test_a_broken_one_names_its_distribution(install, target: str, source: str, said: str) -> None:  # type: ignore[no-untyped-def]
    install("acme_bad", {"bad": target}, source)
    with pytest.raises(GovernorError, match=rf"governor 'bad' of acme_bad \({target}\) .*{said}"):
        governor_entry("bad")
    assert governor_entry("fixed").name == "fixed"  # the others still work
    assert "bad" in governor_names()


def test_a_clash_with_a_bundled_name_is_refused(install) -> None:  # type: ignore[no-untyped-def]
    install("acme_clash", {"schedule": "acme_clash:ENTRY"}, GOOD)
    with pytest.raises(
        GovernorError, match="'schedule' is offered by acme_clash, and it is a bundled governor"
    ):
        governor_entry("schedule")


def test_a_clash_between_two_distributions_is_refused(install) -> None:  # type: ignore[no-untyped-def]
    install("acme_first", {"always_one": "acme_first:ENTRY"}, GOOD)
    install("acme_second", {"always_one": "acme_second:ENTRY"}, GOOD)
    with pytest.raises(GovernorError, match="offered by acme_first and acme_second: rename one"):
        governor_entry("always_one")
