"""What a policy counts as load: all requests of the step as vLLM does, or the decoding ones alone."""

from __future__ import annotations

from collections.abc import Callable

from governors.contract import StepObservation
from governors.options import OptionReader

LoadCount = Callable[[StepObservation], int]

COUNT_OPTION = '"scheduled" (default, as vLLM): all requests of the step; "decodes": decoding ones alone'


def scheduled(observation: StepObservation) -> int:
    """All requests in the step: a burst of prompts counts at once, and so can thrash a threshold."""
    return observation.scheduled_requests


def decodes(observation: StepObservation) -> int:
    """Decoding requests alone; a step that only prefills counts as 1."""
    return max(observation.batch, 1)


COUNTS: dict[str, LoadCount] = {"scheduled": scheduled, "decodes": decodes}


def load_count(reader: OptionReader) -> LoadCount:
    """Option `count`."""
    return COUNTS[reader.choice("count", "scheduled", tuple(COUNTS))]
