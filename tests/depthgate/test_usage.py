"""Usage errors are one line that names the verb; a fault of depthgate itself has an exit code of its own."""

from __future__ import annotations

import pytest

from depthgate.__main__ import VERBS, main
from depthgate.verbs import listing
from tests.depthgate.cli import refusal


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_every_verb_s_usage_error_is_one_line(verb: str) -> None:
    said = refusal(verb, "--nonsense")
    assert said.startswith(f"depthgate {verb}: error: ")
    assert said.endswith(f"; see depthgate {verb} --help")


def test_what_belongs_to_no_verb() -> None:
    assert refusal().startswith("depthgate: error: the following arguments are required: VERB")
    assert refusal("lst").startswith("depthgate: error: VERB: invalid choice: 'lst' (choose from")
    assert refusal("run", "quickstart", "--foo\nbar") == (
        "depthgate run: error: unrecognized arguments: --foo bar; see depthgate run --help"
    )


def test_a_fault_of_its_own_is_no_ruling(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(args: object) -> int:
        raise ZeroDivisionError("of ours")

    monkeypatch.setattr(listing, "main", broken)
    assert main(["list", "suites"]) == 70
    said = capsys.readouterr().err
    assert "ZeroDivisionError: of ours" in said
    assert "Traceback" in said
    assert said.splitlines()[-1] == "depthgate: its own fault, no ruling; please report these lines"
