"""The [[traffic]] tables of a suite, read strictly: whence prompts come, how long they and answers are."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from suites.fields import Fields, check_unique, nearest, read_name
from suites.model import Lengths, LoadSpec, SuiteError, TrafficClass

MOST_WORDS = 1_000_000
MOST_TOKENS = 10_000_000
MOST_ROWS = 10_000_000
MOST_TURNS = 100
DISTRIBUTIONS = ("lognormal", "normal", "uniform")
SAMPLES = ("first", "reservoir")
OF_SETS = ("column", "max_tokens_column", "config", "rows", "sample", "streaming")  # not of offline prompts

# What the client writes into a body itself; and "n", since one request has one answer here.
CLIENT_FIELDS = {
    *("model", "messages", "prompt", "stream", "stream_options", "temperature", "seed", "n"),
    *("max_tokens", "max_completion_tokens", "min_tokens", "ignore_eos"),
}


def read_traffic(top: Fields) -> tuple[TrafficClass, ...]:
    """The classes of a suite, one at least. Raises SuiteError: one line with file, field, value and mend."""
    classes = tuple(_traffic_class(fields) for fields in top.tables("traffic"))
    if not classes:
        raise top.fault("traffic", 'at least one class is needed; add [[traffic]] with name = "gsm8k"')
    check_unique((item.name for item in classes), top.source, "traffic")
    return classes


def check_conversations(load: LoadSpec, classes: Sequence[TrafficClass], source: str) -> None:
    """A next turn waits for the answer before it and carries it: not every load can do so."""
    for index, item in enumerate(classes):
        if item.turns in (None, 1):
            continue
        where = f"{source}: traffic[{index}].turns = {item.turns}"
        if load.mode == "open":
            raise SuiteError(
                f'{where}: an open loop does not wait for answers; use mode = "closed" or remove it'
            )
        if load.route != "chat":
            raise SuiteError(f'{where}: only the chat route carries earlier turns; use route = "chat"')
        if load.bursts:
            raise SuiteError(
                f"{where}: bursts on top do not wait for answers; remove load.bursts or the turns"
            )


def read_body(fields: Fields) -> Mapping[str, object] | None:
    """`body = { top_k = 1 }`; refused where the client sets the field itself."""
    if fields.raw("body") is None:
        return None
    body = fields.options("body")
    for name in sorted(CLIENT_FIELDS & body.keys()):
        raise fields.fault("body", f"{name!r} is set by the client; {_own_field(name)}")
    return body


def _own_field(name: str) -> str:
    if name in ("max_tokens", "min_tokens", "ignore_eos"):
        return f"write {name} in the traffic class"
    if name == "seed":
        return "write seed in the suite"
    return "remove it"


def _traffic_class(fields: Fields) -> TrafficClass:
    source = fields.text_or("source", "offline")
    if not re.fullmatch(r"offline|hub:\S+|file:.+", source):
        raise fields.fault("source", 'must be "offline", "hub:ID" or "file:PATH"')
    item = TrafficClass(
        name=read_name(fields, "name"),
        weight=fields.number("weight", lambda x: x > 0, "must be above 0; leave the class out instead", 1.0),
        source=source,
        column=fields.text_or_none("column"),
        split=fields.text_or("split", "test"),
        max_tokens=_lengths(fields, "max_tokens") or 180,
        ignore_eos=fields.flag("ignore_eos", default=True),
        prompt_words=fields.integer_or_none("prompt_words", 1, MOST_WORDS),
        prompt_tokens=_lengths(fields, "prompt_tokens"),
        min_tokens=fields.integer_or_none("min_tokens", 1, MOST_TOKENS),
        max_tokens_column=fields.text_or_none("max_tokens_column"),
        config=fields.text_or_none("config"),
        rows=fields.integer_or_none("rows", 1, MOST_ROWS),
        sample=None if fields.raw("sample") is None else fields.choice("sample", SAMPLES, SAMPLES[0]),
        streaming=None if fields.raw("streaming") is None else fields.flag("streaming", default=False),
        turns=fields.integer_or_none("turns", 1, MOST_TURNS),
        body=read_body(fields),
    )
    fields.close()
    _check_source(fields, item)
    _check_lengths(fields, item)
    return item


def _check_source(fields: Fields, item: TrafficClass) -> None:
    if item.source == "offline":
        for name in OF_SETS:
            if fields.raw(name) is not None:
                raise fields.fault(name, "of a hub: or file: source; offline prompts have none: remove it")
    for name in ("prompt_words", "prompt_tokens"):
        if item.source != "offline" and fields.raw(name) is not None:
            raise fields.fault(name, f"prompts of {item.source!r} are as long as they are; remove it")
    if item.config is not None and not item.source.startswith("hub:"):
        raise fields.fault("config", "a file has no configurations; remove it")
    if item.rows is None:
        for name in ("streaming", "sample"):
            if getattr(item, name):
                raise fields.fault(name, "of how many rows? add rows = 1000")


def _check_lengths(fields: Fields, item: TrafficClass) -> None:
    if item.prompt_words is not None and item.prompt_tokens is not None:
        raise fields.fault("prompt_words", "prompt_tokens says how long already; remove one of the two")
    if item.min_tokens is not None:
        most = item.max_tokens if isinstance(item.max_tokens, int) else item.max_tokens.max
        if most is not None and item.min_tokens > most:
            raise fields.fault("min_tokens", f"must be at most max_tokens, {most}")


def _lengths(fields: Fields, name: str) -> int | Lengths | None:
    """A fixed number, or `{ distribution = "lognormal", mean = 200, sd = 80, min = 16, max = 2000 }`."""
    value = fields.raw(name)
    if not isinstance(value, Mapping):
        return fields.integer_or_none(name, 1, MOST_TOKENS)
    table = Fields(value, fields.source, fields.at(name))
    kind = table.text("distribution")
    if kind not in DISTRIBUTIONS:
        raise table.fault("distribution", f"not known; {nearest(kind, DISTRIBUTIONS)}")
    lengths = Lengths(
        distribution=kind,
        mean=table.number_or_none("mean", lambda x: 0 < x <= MOST_TOKENS, "must be above 0 tokens"),
        sd=table.number_or_none("sd", lambda x: 0 < x <= MOST_TOKENS, "must be above 0 tokens"),
        min=table.integer_or_none("min", 1, MOST_TOKENS),
        max=table.integer_or_none("max", 1, MOST_TOKENS),
    )
    table.close()
    _check_distribution(table, lengths)
    return lengths


def _check_distribution(table: Fields, lengths: Lengths) -> None:
    uniform = lengths.distribution == "uniform"
    for name in ("min", "max") if uniform else ("mean", "sd"):
        if table.raw(name) is None:
            raise table.fault(name, f"missing: a {lengths.distribution} distribution needs it")
    for name in ("mean", "sd") if uniform else ():
        if table.raw(name) is not None:
            raise table.fault(name, "a uniform distribution has min and max alone; remove it")
    low, high = lengths.min or 1, lengths.max
    if high is not None and high < low:
        raise table.fault("max", f"must be at least min, {low}")
    if lengths.mean is not None and not low <= lengths.mean <= (high or lengths.mean):
        raise table.fault("mean", "must lie between min and max")
