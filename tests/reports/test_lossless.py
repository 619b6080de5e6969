"""The correctness gate's rule: what is a difference, and how it is said."""

from __future__ import annotations

from dataclasses import replace

from loadgen.counters import EngineCounters
from reports.lossless import Answer, ArmAnswers, acceptance_faults, output_faults

ANSWERS = (Answer("a b c", (1, 2, 3)), Answer("d e", (4, 5)))
COUNTERS = EngineCounters(drafts=10, draft_tokens=40, accepted_tokens=20, accepted_by_position=(9, 6, 3, 2))
OFF = ArmAnswers("off", None, ANSWERS)
FIXED = ArmAnswers("fixed_4", 4, ANSWERS, COUNTERS)


def test_equal_answers_are_lossless() -> None:
    assert output_faults(OFF, FIXED) == ()


def test_the_first_other_token_is_named() -> None:
    lossy = replace(FIXED, answers=(ANSWERS[0], Answer("d x", (4, 9))))
    assert output_faults(OFF, lossy) == (
        "fixed_4: the answer to prompt 2 is not off's: token 2 of 2 is 9, not 5",
    )
    short = replace(FIXED, answers=(Answer("a b", (1, 2)), ANSWERS[1]))
    assert output_faults(OFF, short) == ("fixed_4: the answer to prompt 1 is not off's: 2 tokens, not 3",)


def test_text_decides_where_there_are_no_ids_and_equal_text_of_other_tokens_is_a_difference() -> None:
    plain = replace(OFF, answers=(Answer("a b c"), Answer("d e")))
    assert output_faults(plain, replace(plain, arm="x", answers=(Answer("a b c"), Answer("d!")))) == (
        "x: the answer to prompt 2 is not off's: the texts differ",
    )
    respelt = replace(FIXED, answers=(Answer("a b c", (1, 7)), ANSWERS[1]))
    assert len(output_faults(OFF, respelt)) == 1


def test_a_missing_answer_is_a_fault() -> None:
    assert output_faults(OFF, replace(FIXED, answers=ANSWERS[:1])) == ("fixed_4: 1 answer to 2 prompts",)


def test_one_k_accepts_the_same_whoever_chose_it() -> None:
    same = replace(FIXED, arm="schedule")
    other = replace(FIXED, arm="table", counters=replace(COUNTERS, accepted_tokens=21))
    deeper = replace(FIXED, arm="fixed_5", depth=5, counters=replace(COUNTERS, accepted_tokens=30))
    unknown = replace(FIXED, arm="free", depth=None, counters=replace(COUNTERS, accepted_tokens=9))
    assert acceptance_faults([FIXED, same, deeper, unknown, replace(FIXED, arm="mute", counters=None)]) == ()
    assert acceptance_faults([FIXED, other]) == (
        "table: at K=4 21 of 40 drafts accepted, fixed_4 20 of 40 drafts accepted on the same prompts",
    )
