"""One arm of a published table as the embedded engine sees it, and named constants placed into it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engines.embedded.bounds import check_profile
from engines.embedded.profile import EngineProfile, load_profile
from engines.embedded.schema import read_table
from engines.embedded.validation.survival import length, population
from governors.profile import ProfileError

HOST_TIMES = (
    "step_s",
    "request_s",
    "launch_full_s",
    "launch_piecewise_s",
    "launch_eager_s",
    "verify_s",
    "verify_request_s",
    "draft_first_s",
    "draft_next_s",
    "zero_depth_s",
)


@dataclass(frozen=True, slots=True)
class Setting:
    """A profile and what a table adds to it.

    rate, spread       acceptance: conditional rate of a request is sigmoid(logit(rate) + spread * N(0, 1));
                       `rate` None: the profile's published curve
    extra_context_tokens   context beyond the stated one (the mean of what was generated)
    kv_capacity_bytes  so many requests run at once as this holds; None = all
    host_level         every launch and host time is this many times the profile's (HostSpec: level x host)
    policy_s           added to each step by a policy that trims windows (confidences, sorting)
    """

    profile: EngineProfile
    rate: float | None = None
    spread: float = 0.0
    extra_context_tokens: float = 0.0
    kv_capacity_bytes: float | None = None
    policy_s: float = 0.0
    host_level: float = 1.0

    def placed_host(self) -> EngineProfile:
        """The profile with its host at `host_level`."""
        if self.host_level == 1.0:
            return self.profile
        host = self.profile.host
        times = {name: getattr(host, name) * self.host_level for name in HOST_TIMES}
        return dataclasses.replace(self.profile, host=dataclasses.replace(host, **times))

    def length(self, depth: int) -> float:
        """Tokens a request and step at `depth`."""
        if self.rate is not None:
            return length(self.rate, self.spread, depth)
        return 1.0 + sum(self.profile.acceptance.by_class["default"][:depth])

    def survival(self, depth: int) -> tuple[float, ...]:
        """P(the first k drafts pass), k = 1..depth, of a mean request."""
        if self.rate is not None:
            survival, weights = population(self.rate, self.spread, depth)
            return tuple((weights @ survival).tolist())
        return tuple(self.profile.acceptance.by_class["default"][:depth])

    def held(self, context_tokens: float) -> float:
        """Requests of so much context that the KV cache holds at once (a fraction)."""
        if self.kv_capacity_bytes is None:
            return math.inf
        target = self.profile.target
        window = 0 if target.kv_window_tokens is None else min(context_tokens, target.kv_window_tokens)
        bytes_each = target.kv_bytes_per_token * context_tokens + target.kv_window_bytes_per_token * window
        return self.kv_capacity_bytes / bytes_each


def base_setting(profile: str, constants: Mapping[str, object]) -> Setting:
    """A shipped profile with constants replaced by dotted path. Raises ProfileError."""
    loaded = load_profile(profile)
    table: dict[str, Any] = dataclasses.asdict(loaded)
    own = {key: value for key, value in constants.items() if not key.startswith("profile.")}
    for path, value in constants.items():
        if path not in own:
            *folders, name = path.removeprefix("profile.").split(".")
            place = table
            for folder in folders:
                place = place[folder]
            place[name] = None if value == "none" else value
    made = read_table(EngineProfile, {**table, "sources": {}}, "")
    check_profile(made)
    return dataclasses.replace(Setting(made), **own)  # type: ignore[arg-type]


def placed(spec: Any, path: str, value: float) -> Any:
    """`spec` with the constant at the dotted `path` replaced. ProfileError: no such constant."""
    name, _, rest = path.partition(".")
    if not dataclasses.is_dataclass(spec) or name not in {item.name for item in dataclasses.fields(spec)}:
        raise ProfileError(f"{path}: no such constant of {type(spec).__name__}")
    inner = placed(getattr(spec, name), rest, value) if rest else value
    return dataclasses.replace(spec, **{name: inner})  # type: ignore[type-var]
