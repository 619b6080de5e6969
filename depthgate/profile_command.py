"""`depthgate profile` from flags to files."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from depthgate.engine_choice import engine_choice
from depthgate.exits import UsageError
from depthgate.loop import run_loop
from depthgate.machine import describe_machine
from depthgate.output_file import check_file, write_file
from depthgate.profiling import ProfilingPlan, measure
from governors.profile import Profile
from reports.step_costs import LEAST_STEPS, Fitted, TooFewSteps
from suites.model import EngineSpec


def write_profiles(args: argparse.Namespace) -> int:
    """One file a context. UsageError: a flag that cannot be, or a point that could not be measured."""
    contexts = numbers("--context", args.context, 1)
    for words in contexts:
        plan = plan_of(args, words)
        path = args.out if len(contexts) == 1 else args.out.with_stem(f"{args.out.stem}-context{words}")
        check_file("--out", path)
        try:
            fitted = run_loop(lambda plan=plan: measure(plan, _say))  # type: ignore[misc]
        except TooFewSteps as error:
            raise UsageError(str(error)) from error
        write_file("--out", path, json.dumps(fitted.profile.to_mapping(), indent=1) + "\n")
        show(fitted, path)
    return 0


def plan_of(args: argparse.Namespace, words: int) -> ProfilingPlan:
    """UsageError names the flag."""
    if args.steps < LEAST_STEPS:
        raise UsageError(f"--steps {args.steps}: a median needs {LEAST_STEPS} or more")
    depths = numbers("--depths", args.depths, 0)
    choice = engine_choice(args.engine)
    if choice.url:
        raise UsageError(
            "--engine URL: step records are needed, and a URL has none here; take vllm or embedded"
        )
    engine = choice.started or EngineSpec(profile=args.profile)
    most = {"k_max": max(1, depths[-1])}
    return ProfilingPlan(
        engine=EngineSpec(
            engine.kind, engine.profile, model=engine.model, options={**engine.options, **most}
        ),
        depths=depths,
        batches=numbers("--batches", args.batches, 1),
        words=words,
        hardware=args.hardware or hardware(),
        steps=args.steps,
        rounds=args.rounds,
        captured_tokens=numbers("--captured", args.captured, 1) if args.captured else (),
    )


def numbers(flag: str, text: str, least: int) -> tuple[int, ...]:
    """ "1,2,4" ascending, each once; UsageError otherwise."""
    words = text.split(",")
    if not all(word.strip().isdecimal() and int(word) >= least for word in words):
        raise UsageError(f"{flag} {text}: write whole numbers of at least {least} with commas: 1,2,4")
    return tuple(sorted({int(word) for word in words}))


def hardware() -> str:
    """The first GPU, else the CPU."""
    machine = describe_machine()
    accelerators = machine["accelerators"]
    if isinstance(accelerators, list) and accelerators:
        return str(accelerators[0])
    return str(machine["cpu"] or "unknown CPU")


def show(fitted: Fitted, path: Path) -> None:
    """Milliseconds a step, rows by batch; then what a reader should know."""
    profile: Profile = fitted.profile
    model = " (a model, not a measurement)" if profile.is_model else ""
    print(f"{profile.binding.engine_version}, {profile.binding.target_model}: ms a step{model}")
    print("batch " + "".join(f"{f'K={depth}':>9}" for depth in profile.depths))
    for batch, row in zip(profile.batches, profile.step_s, strict=True):
        print(f"{batch:>5} " + "".join(f"{seconds * 1e3:9.2f}" for seconds in row))
    for remark in fitted.remarks:
        print(f"note: {remark}")
    print(f"profile: {path} (at least {fitted.steps} steps behind every number)")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
