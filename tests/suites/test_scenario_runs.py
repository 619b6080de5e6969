"""`python -m tests.suites.scenario_runs`: --help remakes nothing, and a name that is none is one line."""

from __future__ import annotations

import pytest

from tests.suites import scenario_runs


def test_help_and_slips(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[list[str]] = []
    monkeypatch.setattr(scenario_runs, "remake", lambda names: made.append(list(names)))
    with pytest.raises(SystemExit) as ended:
        scenario_runs.main(["--help"])
    assert ended.value.code == 0
    assert "writes tests/golden/scenarios" in capsys.readouterr().out
    for slip, said in (("scenario-kv-presure", 'did you mean "scenario-kv-pressure"?'), ("--halp", "--halp")):
        with pytest.raises(SystemExit) as ended:
            scenario_runs.main([slip])
        assert ended.value.code == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert said in line
    assert made == []
    scenario_runs.main(["scenario-kv-pressure"])
    scenario_runs.main([])
    assert made == [["scenario-kv-pressure"], list(scenario_runs.SCENARIOS)]
