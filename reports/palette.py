"""Colours of the page: one per arm, the same in every chart and table; each has a light and a dark form."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

BASELINE = "#69727f"
# After Okabe and Ito (2008), darkened to 4.5:1 on white; told apart under the common colour blindnesses.
ARMS = ("#0072b2", "#c2500a", "#00805d", "#a3478b", "#8f6a00", "#3a5ec7", "#6d4c35", "#c2185b")
SYMBOLS = (
    "square",
    "diamond",
    "triangle-up",
    "triangle-down",
    "pentagon",
    "star",
    "hexagon",
    "bowtie",
    "hourglass",
)
INK, GRID, PAPER, LIMIT = "#1d2630", "#e4e8ed", "#ffffff", "#b3261e"
REASONS = {
    "steady": "#69727f",
    "raised": "#0072b2",
    "backed-off": "#c2500a",
    "overloaded": "#b3261e",
    "probed": "#a3478b",
    "no-model": "#8f6a00",
}
BAND = 0.16  # opacity of an interval band
DARK = {
    BASELINE: "#a5afbc",
    "#0072b2": "#5ab4f0",
    "#c2500a": "#ff9a5c",
    "#00805d": "#3fcfa2",
    "#a3478b": "#e79bd0",
    "#8f6a00": "#e6bd45",
    "#3a5ec7": "#93adff",
    "#6d4c35": "#cfae96",
    "#c2185b": "#ff8ab5",
    INK: "#e4e8ee",
    GRID: "#2e3641",
    PAPER: "#181d24",
    LIMIT: "#ff8a80",
}


@dataclass(frozen=True, slots=True)
class ArmStyle:
    """How an arm is drawn: hex colour (light form) and plotly's marker symbol."""

    colour: str
    symbol: str


def arm_styles(arms: Iterable[tuple[str, bool]]) -> dict[str, ArmStyle]:
    """Name -> style for (name, is baseline) in order of appearance; baselines are grey."""
    styles: dict[str, ArmStyle] = {}
    taken = 0
    for name, is_baseline in arms:
        if name in styles:
            continue
        if is_baseline:
            styles[name] = ArmStyle(BASELINE, "circle")
        else:
            styles[name] = ArmStyle(ARMS[taken % len(ARMS)], SYMBOLS[taken % len(SYMBOLS)])
            taken += 1
    return styles


def translucent(colour: str, opacity: float) -> str:
    """A hex colour as plotly's rgba()."""
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red}, {green}, {blue}, {opacity})"
