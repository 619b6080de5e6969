"""What a judged run folder shows: the page's input, the page, and the words on the terminal."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from depthgate.exits import UsageError
from engines.embedded.measured import measured_note, measured_series
from reports.course import load_courses
from reports.judge import judge_run
from reports.judgement import Judgement
from reports.page_input import ReferenceSeries, ReportInput
from reports.reproduction import ReproductionSummary
from reports.run_folder import RunFolder, read_run
from reports.throughputs import read_throughputs
from reproducers.registry import REPRODUCERS


def report_input(run_dir: Path) -> ReportInput:
    """Judge a run folder and gather what stands beside the verdict; a reproduction is assessed again."""
    from reports.steps import depth_traces

    run = read_run(run_dir)
    judgement = judge_run(run)
    profile = judgement.profile if judgement.is_model else None
    note = measured_note(profile)
    return ReportInput(
        judgement=judgement,
        reproduction=reproduction_of(run, judgement),
        title=_title(judgement),
        traces=depth_traces(run),
        courses=load_courses(run),
        commands=_commands(judgement),
        model_notes=(note,) if note else (),
        references=tuple(
            ReferenceSeries(series.arm, series.source, series.tokens_per_s)
            for series in measured_series(profile)
        ),
    )


def reproduction_of(run_dir: Path | RunFolder, judgement: Judgement) -> ReproductionSummary | None:
    """The summary when the manifest says that the run is a reproduction; None otherwise."""
    reproducer = REPRODUCERS.get(str(judgement.manifest.get("reproducer")))
    if reproducer is None:
        return None
    return reproducer.assess(judgement, read_throughputs(run_dir))


def _title(judgement: Judgement) -> str:
    """A control says so: its verdict is meant to be the other one."""
    overrides = judgement.manifest.get("overrides")
    flags = overrides if isinstance(overrides, list) else []
    control = [str(flag).removeprefix("--") for flag in flags if str(flag).startswith("--control")]
    return ", ".join([f"{judgement.suite} on {judgement.profile or judgement.engine}", *control])


def _commands(judgement: Judgement) -> tuple[str, ...]:
    command = judgement.manifest.get("command")
    typed = (shlex.join(map(str, command)),) if isinstance(command, list) and command else ()
    return (*typed, f"depthgate judge out/{judgement.run}", f"depthgate report out/{judgement.run}")


def write_page(inputs: Sequence[ReportInput], path: Path) -> Path:
    """Write the page through a draft, so that a reader never finds half of one.

    UsageError when it cannot be written there; what is no plain file (a pipe, a device) is never replaced.
    """
    from reports.page import write_report

    draft = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        if path.exists() and not path.is_file():
            write_report(inputs, path)
            return path
        write_report(inputs, draft)
        draft.replace(path)
    except OSError as error:
        raise UsageError(f"{path}: cannot write the page ({error.strerror}); name another file") from None
    finally:
        draft.unlink(missing_ok=True)
    return path


def show(shown: ReportInput, page: Path) -> None:
    """The table, the verdict and where the page lies, on stdout."""
    from reports.table import print_cells, render_verdict_text, stdout_console

    console = stdout_console()
    print_cells(shown.judgement, console)
    console.print(render_verdict_text(shown.reproduction or shown.judgement), markup=False, highlight=False)
    for sentence in shown.reproduction.evidence if shown.reproduction else ():
        console.print(f"  {sentence}", markup=False, highlight=False)
    console.print(f"report: {page}", markup=False, highlight=False, soft_wrap=True)
