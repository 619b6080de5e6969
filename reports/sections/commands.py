"""How to make this run again: command lines, quoted for a shell."""

from __future__ import annotations

import shlex

from reports.markup import Markup, tag
from reports.page_input import PagePart
from reports.sections.blocks import absent, card, note


def commands_section(part: PagePart) -> Markup:
    """The input's commands, else the manifest's own."""
    lines = part.run.commands or _from_manifest(part.judgement.manifest)
    if not lines:
        return card(part, "commands", "How to reproduce", absent("The run does not say how it was started."))
    shown = tag("pre", tag("code", "\n".join(lines)), tabindex="0")
    return card(
        part,
        "commands",
        "How to reproduce",
        shown,
        note(
            "From a checkout at the commit above. The seed fixes traffic and, in virtual time, every figure."
        ),
    )


def _from_manifest(manifest: dict[str, object]) -> tuple[str, ...]:
    command = manifest.get("command")
    if isinstance(command, list) and command:
        return (shlex.join(str(word) for word in command),)
    return (command,) if isinstance(command, str) and command else ()
