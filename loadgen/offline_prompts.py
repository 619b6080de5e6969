"""Prompts that the project makes itself, so that a run needs no network: word problems, chat and verse.

Each generator takes a `random.Random` and gives one prompt. The same seed gives the same text on any machine:
only `random()`-based methods of Python's Mersenne Twister are used, whose streams are stable across versions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

NAMES = (
    *("Amara", "Bram", "Chidi", "Dalia", "Emil", "Farah", "Goran", "Hana", "Idris"),
    *("Jolanta", "Kofi", "Lena", "Mateo", "Noor", "Oskar", "Priya", "Quinn", "Rosa"),
)
PLACES = ("market", "harbour", "library", "bakery", "school", "orchard", "workshop", "station", "theatre")
GOODS = ("apples", "pencils", "tickets", "postcards", "candles", "oranges", "bottles", "tiles", "buttons")
BOXES = ("crates", "boxes", "baskets", "bags", "trays")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")

OPENERS = (
    "{a} works at the {place} and starts the week with {n} {box} of {goods}, each holding {m} {goods}.",
    "At the {place}, {a} counts {n} {box} that hold {m} {goods} each.",
    "{a} buys {n} {box} of {goods} for the {place}; there are {m} {goods} in every one of the {box}.",
)
EVENTS = (
    "On {day}, {k} of the {goods} are sold at {p} dollars each.",
    "{b} takes {k} {goods} home and brings {j} back on {day}.",
    "On {day} a delivery of {k} more {goods} arrives, and {j} of those turn out to be damaged.",
    "{b} needs {k} {goods} for a project and pays {p} dollars for each of them on {day}.",
    "Half of what is left by {day} is set aside for {b}, rounded down to a whole number.",
    "A storm on {day} ruins {j} of the {goods}.",
)
QUESTIONS = (
    "How many {goods} does {a} have at the end?",
    "How many {goods} are left, and how many dollars did {a} take in all?",
    "If {a} packs what is left into bags of {q}, how many full bags are there?",
)

TOPICS = (
    "learning to repair old radios",
    "moving to a town where nobody speaks your language",
    "keeping bees on a roof",
    "the first winter in a mountain hut",
    "sharing a kitchen with six people",
    "a night train across a continent",
    "teaching a grandparent to use a map",
    "running a small bookshop",
    "restoring a wooden boat",
    "growing food in the shade",
    "how cities sound at four in the morning",
    "giving away most of what one owns",
)
READERS = (
    "a curious child",
    "a tired colleague",
    "a sceptical friend",
    "someone new to the subject",
    "an expert in a hurry",
)
CHAT = (
    "I have been thinking a lot about {topic}. What would you tell {reader} about it?",
    "Explain to {reader} what is hard about {topic}, and give two examples that are not obvious.",
    "Write a letter to {reader} about {topic}. Keep the tone warm and avoid clichés.",
    "Compare {topic} with {other}: what do they have in common, and where do they part ways?",
    "Draft a plan for someone who wants to start with {topic} next month. They have {n} hours a week.",
    "Tell me a short story about {topic} that ends in a way I would not expect.",
)
CHAT_DETAILS = (
    "I have about {n} minutes to read your answer.",
    "Please be honest about what you do not know.",
    "My last attempt ended badly because I underestimated {other}.",
    "Mention one book, one tool and one habit that help.",
    "Assume that money is short but that time is not.",
    "{a} told me the opposite last week, and I am not sure whom to believe.",
    "Close with a question that I should ask myself.",
)
VERSE = (
    "Write a poem of {lines} lines about {topic}. Let no two neighbouring lines rhyme.",
    "Write {lines} lines of verse in which {a} remembers {topic}, and let the last line echo the first.",
    "Compose a ballad about {topic} for {reader}, with a refrain that changes a little every time.",
)


def word_problem(rng: Random) -> str:
    """A grade-school arithmetic problem of three to seven sentences."""
    words = _cast(rng)
    opener = _fill(OPENERS, words, rng)
    days = DAYS[: _integer(rng, 1, len(DAYS))]
    events = [_fill(EVENTS, words | _numbers(rng) | {"day": day}, rng) for day in days]
    return " ".join([opener, *events, _fill(QUESTIONS, words, rng)])


def conversation(rng: Random) -> str:
    """An open-ended request: one in four asks for verse; up to five sentences of detail follow."""
    templates = VERSE if rng.random() < 0.25 else CHAT
    words = _cast(rng)
    details = [detail.format(**words) for detail in _some(rng, CHAT_DETAILS, _integer(rng, 0, 5))]
    return " ".join([_fill(templates, words, rng), *details])


def of_words(generate: Callable[[Random], str], rng: Random, words: int) -> str:
    """Texts one after another, cut to so many words."""
    found = generate(rng).split()
    while len(found) < words:
        found += generate(rng).split()
    return " ".join(found[:words])


def of_bytes(generate: Callable[[Random], str], rng: Random, size: int) -> str:
    """Texts one after another, as many whole words as fit into `size` bytes of UTF-8; one word at least."""
    found: list[str] = []
    left = size
    while True:
        for word in generate(rng).split():
            left -= len(word.encode()) + bool(found)
            if left < 0 and found:
                return " ".join(found)
            found.append(word)


GENERATORS: dict[str, Callable[[Random], str]] = {
    "gsm8k": word_problem,
    "chat": conversation,
}
DEFAULT_GENERATOR = conversation


def _cast(rng: Random) -> dict[str, object]:
    first, second = _two(rng, NAMES)
    topic, other = _two(rng, TOPICS)
    return {
        "a": first,
        "b": second,
        "topic": topic,
        "other": other,
        "place": _pick(rng, PLACES),
        "goods": _pick(rng, GOODS),
        "box": _pick(rng, BOXES),
        "reader": _pick(rng, READERS),
        "lines": _integer(rng, 8, 40),
    } | _numbers(rng)


def _numbers(rng: Random) -> dict[str, object]:
    return {
        "n": _integer(rng, 10, 40),
        "m": _integer(rng, 20, 60),
        "k": _integer(rng, 10, 30),
        "j": _integer(rng, 1, 9),
        "p": _integer(rng, 2, 12),
        "q": _integer(rng, 4, 15),
    }


def _fill(templates: Sequence[str], words: dict[str, object], rng: Random) -> str:
    return _pick(rng, templates).format(**words)


def _pick(rng: Random, items: Sequence[str]) -> str:
    return items[int(rng.random() * len(items))]


def _some(rng: Random, items: Sequence[str], number: int) -> list[str]:
    """`number` of the items, each at most once, in random order."""
    left = list(items)
    return [left.pop(int(rng.random() * len(left))) for _ in range(number)]


def _two(rng: Random, items: Sequence[str]) -> tuple[str, str]:
    first = int(rng.random() * len(items))
    second = (first + 1 + int(rng.random() * (len(items) - 1))) % len(items)
    return items[first], items[second]


def _integer(rng: Random, low: int, high: int) -> int:
    return low + int(rng.random() * (high - low + 1))
