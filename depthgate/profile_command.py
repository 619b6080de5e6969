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
from depthgate.options import whole
from depthgate.output_file import check_file, write_file
from depthgate.profiling import ProfilingPlan, Words, answer_tokens, measure
from engines.embedded.profile import apply_options, load_profile
from engines.embedded.text import count_tokens
from engines.vllm_options import MOST_SEQS
from governors.profile import Profile
from reports.step_costs import LEAST_STEPS, Fitted, TooFewSteps
from suites.fields import Fields, shown
from suites.grammar import counted
from suites.model import EngineSpec
from suites.traffic import MOST_WORDS


def write_profiles(args: argparse.Namespace) -> int:
    """One file a context. UsageError: a flag that cannot be, or a point that could not be measured."""
    contexts = numbers("--context", args.context, 1)
    plans = {_path(args.out, words, len(contexts)): plan_of(args, words) for words in contexts}
    for path in plans:
        check_file("--out", path)
    for path, plan in plans.items():
        try:
            fitted = run_loop(lambda plan=plan: measure(plan, _say))  # type: ignore[misc]
        except TooFewSteps as error:
            raise UsageError(str(error)) from error
        write_file("--out", path, json.dumps(fitted.profile.to_mapping(), indent=1) + "\n")
        show(fitted, path)
    return 0


def _path(out: Path, words: int, contexts: int) -> Path:
    return out if contexts == 1 else out.with_stem(f"{out.stem}-context{words}")


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
    plan = ProfilingPlan(
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
    _check_limits(plan)
    return plan


def _check_limits(plan: ProfilingPlan) -> None:
    """A batch that the engine never runs, or a request that it never takes, would be waited for in vain."""
    seqs, tokens = _limits(plan.engine)
    if plan.batches[-1] > seqs:
        most = f"the engine runs {counted(seqs, 'request')} at once (max_num_seqs)"
        raise UsageError(f"--batches {plan.batches[-1]}: {most}; lower it")
    if tokens is None:
        return
    answer = answer_tokens(plan.steps, plan.depths[-1])
    asked = count_tokens(next(Words(plan.words, answer).stream(0)).text) + answer
    if asked > tokens:
        raise UsageError(
            f"--context {plan.words}: with its answer of --steps {plan.steps} a request has {asked} tokens, "
            f"the engine holds {tokens} (max_model_len, kv_blocks); lower one of the two"
        )


def _limits(engine: EngineSpec) -> tuple[int, int | None]:
    """(requests at once, tokens of one request); of a vLLM the latter is known to itself alone."""
    if engine.kind == "vllm":
        fields = Fields(engine.options, 'engine "vllm"', "options")
        return fields.integer("max_num_seqs", 1, 256, MOST_SEQS), None
    scheduler = apply_options(load_profile(engine.profile or ""), engine.options).scheduler
    return scheduler.max_num_seqs, min(scheduler.max_model_len, scheduler.kv_blocks * scheduler.block_size)


def numbers(flag: str, text: str, least: int, most: int = MOST_WORDS) -> tuple[int, ...]:
    """ "1,2,4" ascending, each once; UsageError otherwise."""
    read = whole(least, most)
    try:
        return tuple(sorted({read(word) for word in text.split(",")}))
    except argparse.ArgumentTypeError:
        said = f"whole numbers from {least} to {most} with commas: 1,2,4"
        raise UsageError(f"{flag} {shown(text)[1:-1]}: write {said}") from None


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
