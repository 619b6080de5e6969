"""`depthgate fit`: step records to a profile for cost-model governors, by named constants."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from depthgate.exits import UsageError
from depthgate.output_file import check_file, write_file
from engines.embedded.profile import load_profile
from governors.profile import Binding, Profile, ProfileError
from governors.telemetry import StepRecord
from loadgen.journal import read_steps
from reports.plausible import plausible_step
from reports.run_folder import RunFolder, read_run
from reports.step_fit import StepFit, StepFitError, fit_steps
from reports.step_profile import profile_of, toml_text

FLAGS = {
    "hardware": "hardware",
    "target_model": "model",
    "drafter_class": "drafter_class",
    "engine_version": "engine_version",
}
BLOCK_CLASSES = ("dflash", "dspark", "block")


Journal = tuple[StepRecord, ...]


@dataclass(frozen=True, slots=True)
class Source:
    """Journals of one run folder or file. `known`: what its manifest says of the binding."""

    path: Path
    journals: tuple[Journal, ...]
    known: dict[str, str]
    is_model: bool | None


def fit(args: argparse.Namespace) -> int:
    """Writes the profile (and a page); UsageError for whatever cannot be fitted, in one line."""
    if args.out.suffix not in (".toml", ".json"):
        raise UsageError(f"--out {args.out}: end it in .toml or .json")
    for flag, path in (("--out", args.out), ("--page", args.page)):
        if path is not None:
            check_file(flag, path)
    if args.page is not None and args.page.resolve() == args.out.resolve():
        raise UsageError(
            f"--page {args.page}: would overwrite the profile of --out; give it a name of its own"
        )
    sources = [source_of(path, args.arm) for path in args.sources]
    binding = binding_of(sources, args)
    is_model = _is_model(sources)
    journals = distinct(journal for source in sources for journal in source.journals)
    try:
        found = fit_steps(journals, block_drafter=binding.drafter_class in BLOCK_CLASSES)
    except StepFitError as error:
        raise UsageError(str(error)) from error
    profile = profile_of(found, binding, _words(sources), is_model=is_model)
    for remark in remarks(profile):
        print(f"fit: {remark}", file=sys.stderr)
    text = toml_text(profile, found) if args.out.suffix == ".toml" else _json_text(profile)
    write_file("--out", args.out, text)
    if args.page is not None:
        from reports.residuals_page import residuals_page

        write_file("--page", args.page, residuals_page(found, profile))
    print(json.dumps(summary(found, args.out), indent=1) if args.json else "\n".join(lines(found, args.out)))
    return 0


def remarks(profile: Profile) -> Iterator[str]:
    """What governors could not do with it."""
    if len(profile.depths) < 2:
        yield (
            f"the steps hold K={profile.depths[0]} alone, so that no policy can choose by this profile; "
            "give runs of other depths too"
        )
    if len(set(profile.verify_s)) < 2:
        yield (
            "the steps show no price of a verified token, so that the dspark policies verify every draft "
            "(reason no-model); give longer runs of more loads"
        )


def distinct(journals: Iterable[Journal]) -> list[Journal]:
    """Each once: steps given twice would be fitted and held out, and their intervals too narrow."""
    found: list[Journal] = []
    for journal in journals:
        if journal in found:
            print(
                f"fit: {len(journal)} steps are the same as those before them; counted once", file=sys.stderr
            )
        else:
            found.append(journal)
    return found


def source_of(path: Path, arms: Sequence[str]) -> Source:
    """UsageError: nothing there, an empty or cut journal, values that cannot be."""
    if not path.is_dir():
        return Source(path, (_journal(path),), {}, None)
    run = read_run(path)
    files = sorted((path / "steps").glob("*.jsonl"))
    chosen = [file for file in files if not arms or file.name.partition(".")[0] in arms]
    if not chosen:
        there = ", ".join(sorted({file.name.partition(".")[0] for file in files})) or "none"
        raise UsageError(f"{path}: no step records of {', '.join(arms) or 'any arm'}; there are: {there}")
    return Source(path, tuple(map(_journal, chosen)), _known(run), run.manifest.get("is_model") is True)


def _journal(path: Path) -> Journal:
    if not path.is_file():
        raise UsageError(f"{path}: no such file; give a run folder or a JSONL file of step records")
    records, torn = read_steps(path)
    if torn:
        raise UsageError(f"{path}: {torn}; cut off the torn line, or run again")
    if not records:
        raise UsageError(f"{path}: holds no step record; was the run recorded with its steps?")
    spoiled = next((step for step in records if not plausible_step(step)), None)
    if spoiled is not None:
        raise UsageError(f"{path}: step {spoiled.step} holds times or counts that cannot be; leave it out")
    return tuple(records)


def _known(run: RunFolder) -> dict[str, str]:
    """A modelled run is bound as its profile is; a real one by what its manifest says."""
    manifest = run.manifest
    if manifest.get("is_model") is True:
        try:
            return dataclasses.asdict(load_profile(str(manifest.get("profile"))).binding)
        except ProfileError:
            return {}
    machine = manifest.get("machine")
    devices = machine.get("accelerators") or [machine.get("cpu")] if isinstance(machine, dict) else []
    found = {
        "hardware": devices[0] if devices else None,
        "target_model": _name_of(run.suite.engine.model) if run.suite is not None else None,
        "drafter_class": manifest.get("drafter_class"),
        "engine_version": manifest.get("engine"),
    }
    return {name: value for name, value in found.items() if isinstance(value, str) and value}


def _name_of(model: str | None) -> str | None:
    """Without its folder or organisation, as `depthgate profile` writes it."""
    return model and Path(model).name


def binding_of(sources: Sequence[Source], args: argparse.Namespace) -> Binding:
    """From flags, else from the manifests, which must agree. UsageError names the part that is missing."""
    parts: dict[str, str] = {}
    for name, flag in FLAGS.items():
        said = {source.known[name]: source.path for source in sources if name in source.known}
        given = getattr(args, flag)
        if given is None and len(said) > 1:
            values = " and ".join(f"{value!r} ({path})" for value, path in said.items())
            raise UsageError(f"{name} is {values}: a profile holds for one; fit them apart")
        if given is not None and set(said) - {given}:
            raise UsageError(f"--{flag.replace('_', '-')} {given}: the manifest says {next(iter(said))!r}")
        value = given or next(iter(said), None)
        if value is None:
            raise UsageError(f"{name} is not known from the records; add --{flag.replace('_', '-')}")
        parts[name] = value
    return Binding(**parts)


def _is_model(sources: Sequence[Source]) -> bool:
    said = {source.is_model for source in sources if source.is_model is not None}
    if len(said) > 1:
        raise UsageError("some runs are modelled and some measured: a profile is one of them; fit them apart")
    return True in said


def _words(sources: Sequence[Source]) -> str:
    return f"depthgate fit of {', '.join(source.path.name for source in sources)}"


def _json_text(profile: Profile) -> str:
    return json.dumps(profile.to_mapping(), indent=1) + "\n"


def summary(found: StepFit, out: Path) -> dict[str, object]:
    """The object of --json: seconds; a constant that cannot be told is null with the reason."""
    return {
        "profile": str(out),
        "steps": len(found.records),
        "held_out_steps": int(found.held_out.sum()),
        "held_out_median_abs_error": found.held_out_error(0.5),
        "held_out_p90_abs_error": found.held_out_error(0.9),
        "constants": {each.name: asdict(each) for each in found.estimates},
    }


def lines(found: StepFit, out: Path) -> list[str]:
    """A line a constant with its interval, then how held-out steps came out."""
    rows = []
    for each in found.estimates:
        if each.seconds is None or each.low is None or each.high is None:
            rows.append(f"{each.name:<20} unknown: {each.why}")
        else:
            rows.append(
                f"{each.name:<20} {each.seconds * 1e3:.6g} ms ({each.low * 1e3:.4g} to {each.high * 1e3:.4g})"
            )
    median, p90 = found.held_out_error(0.5), found.held_out_error(0.9)
    rows.append(
        f"{int(found.held_out.sum())} held-out steps of {len(found.records)}: "
        f"|error| median {median:.1%}, 90th percentile {p90:.1%}"
    )
    if p90 > 0.5:
        print("fit: these constants describe the steps poorly; see --page", file=sys.stderr)
    return [*rows, f"profile: {out}"]
