"""TOML to Suite, strictly: a suite that could be misread is refused before anything runs."""

from __future__ import annotations

import re
from pathlib import Path

from suites.fields import Fields, check_unique, nearest, read_name
from suites.limits import MOST_CONFIDENCE, MOST_REPEATS, MOST_SEED
from suites.loads import check_classes, read_load
from suites.locate import find_suite
from suites.long_numbers import LongNumber, read_toml
from suites.measures import MEASURES
from suites.model import Arm, Budget, EngineSpec, Suite, SuiteError
from suites.traffic import check_conversations, read_traffic

__all__ = ["load_suite", "parse_suite"]

MAY_BE_SECRET = re.compile(r"(?:[^/?#]*//)?[^/?#]*@|[^?#]*[?#]")  # of a URL: credentials, query, fragment


def load_suite(path_or_name: str | Path) -> Suite:
    """The validated suite of a bundled name or a path. SuiteError: one line with file, field, value, mend."""
    path = find_suite(path_or_name)
    try:
        table = read_toml(path.read_text(encoding="utf-8"))
    except LongNumber as error:
        raise SuiteError(f"{path}: {error}") from None
    except (ValueError, RecursionError) as error:  # syntax, encoding
        raise SuiteError(f"{path}: not valid TOML: {' '.join(str(error).split())}") from error
    except OSError as error:
        raise SuiteError(f"{path}: cannot be read: {error.strerror}") from error
    return parse_suite(table, str(path))


def parse_suite(table: object, source: str) -> Suite:
    """The validated suite of a table in the shape of the TOML file (or of `canonical.content`)."""
    top = Fields(table, source)
    suite = Suite(
        name=read_name(top, "name"),
        question=top.text("question"),
        engine=_engine(top),
        traffic=read_traffic(top),
        load=read_load(Fields(_required(top, "load"), source, "load")),
        arms=_arms(top),
        budgets=tuple(_budget(item) for item in top.tables("budgets")),
        seed=top.integer("seed", minimum=0, default=0, maximum=MOST_SEED),
        repeats=top.integer("repeats", minimum=1, default=3, maximum=MOST_REPEATS),
        drafter_class=top.text_or_none("drafter_class"),
        confidence=top.number(
            "confidence",
            lambda x: 0.5 <= x <= MOST_CONFIDENCE,
            f"must be in 0.5 to {MOST_CONFIDENCE}, say 0.95; the bootstrap's draws show no further tail",
            0.95,
        ),
    )
    top.close()
    _check_budget_arms(suite, source)
    check_classes(suite.load, [item.name for item in suite.traffic], source)
    check_conversations(suite.load, suite.traffic, source)
    return suite


def _required(top: Fields, name: str) -> object:
    value = top.raw(name)
    if value is None:
        raise top.fault(name, f"missing; add a [{name}] table")
    return value


def _url(fields: Fields) -> str | None:
    """An http(s) URL; what might be a secret in one is refused, and not said again."""
    url = fields.text_or_none("url")
    if url is None:
        return None
    if MAY_BE_SECRET.match(url):
        raise SuiteError(
            f"{fields.source}: {fields.at('url')}: holds credentials, a query or a fragment; drop them, "
            "and set OPENAI_API_KEY in the environment for a key"
        )
    if not re.match(r"https?://[^\s/]", url):
        raise fields.fault("url", "must begin with http:// or https:// and name a host")
    return url


def _engine(top: Fields) -> EngineSpec:
    table = top.raw("engine")
    fields = Fields({} if table is None else table, top.source, "engine")
    spec = EngineSpec(
        kind=fields.text_or("kind", "embedded"),
        profile=fields.text_or_none("profile"),
        url=_url(fields),
        model=fields.text_or_none("model"),
        options=fields.options("options"),
    )
    fields.close()
    return spec


def _arms(top: Fields) -> tuple[Arm, ...]:
    arms = tuple(_arm(fields) for fields in top.tables("arms"))
    if not arms:
        raise top.fault(
            "arms", "at least one arm is needed; add [[arms]] with a name, a governor and baseline = true"
        )
    check_unique((arm.name for arm in arms), top.source, "arms")
    baselines = [arm.name for arm in arms if arm.baseline]
    if not baselines:
        raise SuiteError(
            f"{top.source}: arms: no baseline arm; add baseline = true to the one to compare with"
        )
    if len(baselines) > 1:
        raise SuiteError(
            f"{top.source}: arms: baseline = true on {', '.join(baselines)}; keep it on exactly one"
        )
    return arms


def _arm(fields: Fields) -> Arm:
    arm = Arm(
        name=read_name(fields, "name"),
        governor=fields.text("governor"),
        options=fields.options("options"),
        url=_url(fields),
        baseline=fields.flag("baseline", default=False),
    )
    fields.close()
    return arm


def _budget(fields: Fields) -> Budget:
    metric = fields.text("metric")
    if metric not in MEASURES:
        raise fields.fault("metric", f"not known; {nearest(metric, MEASURES)}")
    budget = Budget(
        metric=metric,
        min_ratio=fields.number_or_none("min_ratio", lambda x: x > 0, "must be above 0, say 0.97"),
        max_ratio=fields.number_or_none("max_ratio", lambda x: x > 0, "must be above 0, say 1.10"),
        max_value=fields.number_or_none("max_value", lambda x: x >= 0, "must be 0 or more"),
        arms=_budget_arms(fields),
    )
    fields.close()
    _check_bounds(fields, budget)
    return budget


def _budget_arms(fields: Fields) -> tuple[str, ...]:
    names = fields.items("arms") or []
    arms = tuple(name for name in names if isinstance(name, str))
    if len(arms) != len(names) or len(set(arms)) != len(arms):
        raise fields.fault("arms", "must be a list of arm names in quotes, each once")
    return arms


def _check_bounds(fields: Fields, budget: Budget) -> None:
    measure = MEASURES[budget.metric]
    wanted = "min_ratio" if measure.higher_is_better else "max_ratio"
    wanted = wanted if measure.has_ratio else "max_value"
    wrong = "max_ratio" if measure.higher_is_better else "min_ratio"
    if budget.min_ratio is None and budget.max_ratio is None and budget.max_value is None:
        raise fields.fault("metric", f"no bound; add {wanted}")
    if getattr(budget, wrong) is not None:
        better = "more" if measure.higher_is_better else "less"
        raise fields.fault(wrong, f"of {budget.metric} {better} is better; use {wanted}")
    if not measure.has_ratio and (budget.min_ratio is not None or budget.max_ratio is not None):
        raise fields.fault(
            "metric", "the baseline may have none of it, so a ratio says nothing; use max_value"
        )
    if measure.higher_is_better and budget.max_value is not None:
        raise fields.fault("max_value", f"of {budget.metric} more is better; use {wanted}")


def _check_budget_arms(suite: Suite, source: str) -> None:
    names = {arm.name for arm in suite.arms}
    for index, budget in enumerate(suite.budgets):
        for name in budget.arms:
            path = f"{source}: budgets[{index}].arms = {list(budget.arms)}"
            if name not in names:
                raise SuiteError(f"{path}: no arm {name!r}; {nearest(name, names)}")
            if name == suite.baseline.name and budget.max_value is None:
                raise SuiteError(
                    f"{path}: {name!r} is the baseline, its ratio to itself is 1; remove it here"
                )
