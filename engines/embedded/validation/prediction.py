"""What the engine's cost functions say of a cell of a table, given values of its free constants."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from engines.embedded.cost import StepCost, StepShape
from engines.embedded.roofline import RooflineCost, decode_shape
from engines.embedded.validation.setting import Setting, placed
from engines.embedded.validation.survival import burst_shares, trimmings
from engines.embedded.validation.table import Arm, Cell, Table

OFF = "off"


class Predictor:
    """A table's arms with constants placed; `value` and `gain` of its cells."""

    def __init__(self, table: Table, values: Mapping[str, float]) -> None:
        self._arms = table.header.arms
        self._settings = dict(table.settings)
        self._answer_tokens = table.header.answer_tokens
        for path, value in values.items():
            arm, slash, rest = path.rpartition("/")
            shared: dict[int, Setting] = {}  # arms with one setting keep sharing it
            for name in arm.split(",") if slash else self._settings:
                before = self._settings[name]
                if id(before) not in shared:
                    shared[id(before)] = placed(before, rest, value)
                self._settings[name] = shared[id(before)]
        costs = {id(each): RooflineCost(each.placed_host()) for each in self._settings.values()}
        self._costs = {name: costs[id(each)] for name, each in self._settings.items()}

    def value(self, cell: Cell) -> float:
        """In the cell's own quantity and unit (seconds, tokens/s or a ratio)."""
        match cell.quantity:
            case "step_s":
                return self._mean_step_s(cell)
            case "draft_s":
                return self._step(cell, cell.batch, self._depth(cell)).draft_s
            case "target_s":
                return self._verify_s(cell)
            case "trimmed_step_s":
                shape = self._shape(cell, cell.batch, self._depth(cell), cell.batch * (cell.tokens or 1))
                return self._costs[cell.arm].expected(shape).step_s
            case "tokens_per_s":
                return self._tokens_per_s(cell)
            case _:
                return self._tokens_per_s(cell) / self.off_tokens_per_s(cell)

    def gain(self, cell: Cell) -> float:
        """Tokens a second against no speculation at the same batch and context."""
        return self._tokens_per_s(cell) / self.off_tokens_per_s(cell)

    def tokens_a_step(self, cell: Cell) -> float:
        """Of a request: 1 + accepted drafts."""
        setting = self._settings[cell.arm]
        return setting.length(self._depth(cell))

    def off_tokens_per_s(self, cell: Cell) -> float:
        """The arm off beside `cell`."""
        return self._tokens_per_s(
            Cell("tokens_per_s", self._arms[cell.arm].baseline, cell.batch, 0.0, 0, cell.context_tokens)
        )

    def _mean_step_s(self, cell: Cell) -> float:
        """Over a burst if the table says so: requests whose drafts are accepted more often end earlier."""
        depth = self._depth(cell)
        whole_s = self._step(cell, cell.batch, depth).step_s
        if self._answer_tokens is None or depth == 0 or cell.batch == 1:
            return whole_s
        shares = burst_shares(self._settings[cell.arm].survival(depth), self._answer_tokens, cell.batch)
        parts = [
            (share, self._step(cell, max(1, round(active * cell.batch)), depth).step_s)
            for active, share in shares
        ]
        return whole_s + sum(share * (step_s - whole_s) for share, step_s in parts)

    def _tokens_per_s(self, cell: Cell) -> float:
        """Requests beyond what the KV cache holds wait; a fractional batch lies between its neighbours."""
        held = min(float(cell.batch), self._settings[cell.arm].held(self._context(cell)))
        low = max(1, math.floor(held))
        rate = self._rate(cell, low)
        part = held - low
        if part <= 0 or low >= cell.batch:
            return rate
        return rate + part * (self._rate(cell, low + 1) - rate)

    def _rate(self, cell: Cell, batch: int) -> float:
        arm, setting = self._arms[cell.arm], self._settings[cell.arm]
        depth = self._depth(cell)
        if arm.kind != "trim":
            step_s = self._step(cell, batch, depth).step_s + setting.policy_s
            return batch * setting.length(depth) / step_s
        choices = trimmings(setting.rate or 0.5, setting.spread, depth)

        def rate(at: int) -> float:
            verified, accepted = choices[at]
            return (
                batch * (1.0 + accepted) / (self._trimmed_s(cell, batch, depth, verified) + setting.policy_s)
            )

        return _peak(rate, len(choices))

    def _trimmed_s(self, cell: Cell, batch: int, depth: int, verified: float) -> float:
        shape = self._shape(cell, batch, depth, batch + round(batch * verified))
        return self._costs[cell.arm].expected(shape).step_s

    def _step(self, cell: Cell, batch: int, depth: int) -> StepCost:
        return self._costs[cell.arm].expected(self._shape(cell, batch, depth, batch * (depth + 1)))

    def _shape(self, cell: Cell, batch: int, depth: int, tokens: int) -> StepShape:
        arm = self._arms[cell.arm]
        drafts = arm.kind != OFF
        return StepShape(
            decode_requests=batch,
            decode_tokens=tokens,
            decode_uniform=True,
            prefill_requests=0,
            prefill_tokens=0,
            context_tokens=round(batch * self._context(cell)),
            prefill_context_tokens=0,
            depth_next=depth,
            draft_requests=batch if drafts else 0,
            depth_changed=False,
            schedule_armed=arm.armed,
            speculative=drafts,
        )

    def _verify_s(self, cell: Cell) -> float:
        """A step that verifies `cell.tokens` of each request, without its drafter."""
        tokens = cell.batch * (cell.tokens or 1)
        context = round(cell.batch * self._context(cell))
        shape = decode_shape(cell.batch, 0, context, armed=False, speculative=False)
        whole = self._costs[cell.arm].expected(replace(shape, decode_tokens=tokens))
        return whole.step_s

    def _depth(self, cell: Cell) -> int:
        arm: Arm = self._arms[cell.arm]
        if cell.depth is not None:
            return cell.depth
        if not arm.steps:
            return arm.depth or 0
        at = cell.batch if arm.by == "batch" else cell.context_tokens or 0
        return next((depth for low, high, depth in arm.steps if low <= at <= high), 0)

    def _context(self, cell: Cell) -> float:
        setting = self._settings[cell.arm]
        given = cell.context_tokens
        stated = setting.profile.reference_context_tokens if given is None else given
        return stated + setting.extra_context_tokens


def _peak(value: Callable[[int], float], count: int) -> float:
    """The largest of value(0..count - 1), which rises, then falls: every 8th, then those beside the best."""
    best = max(range(0, count, 8), key=value)
    return max(value(at) for at in range(max(0, best - 7), min(count, best + 8)))
