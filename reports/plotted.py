"""A page with figures: the house's document, plotly's own script and the page's, colours in both schemes."""

from __future__ import annotations

from pathlib import Path

from reports.document import FOOTER, html_document
from reports.markup import Child, script_json, trusted
from reports.palette import DARK

_SCRIPT = Path(__file__).parent / "page.js"


def plotted_page(title: str, *content: Child) -> str:
    """The page as text, about 5 MB of which are plotly's script; it asks no other server for anything."""
    from plotly.offline import get_plotlyjs

    scripts = [trusted(get_plotlyjs()), trusted(_SCRIPT.read_text("utf-8"))]
    whole = [
        *content,
        FOOTER,
        trusted(f'<script type="application/json" id="dark-forms">{script_json(DARK)}</script>'),
    ]
    return html_document(title, whole, scripts, _colour_variables())


def _colour_variables() -> str:
    """Each palette colour as a CSS variable `--cRRGGBB`, named by its light form, in both schemes."""
    light = "".join(f"--c{name[1:]}:{name};" for name in DARK)
    dark = "".join(f"--c{name[1:]}:{form};" for name, form in DARK.items())
    return f":root{{{light}}}@media (prefers-color-scheme:dark){{:root{{{dark}}}}}"
