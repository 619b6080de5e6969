"""The command line: one verb, one file under depthgate/verbs; errors become one line and an exit code."""

from __future__ import annotations

import argparse
import errno
import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType

from depthgate.exits import SOFTWARE, USAGE, UsageError
from depthgate.interrupts import sigterm_interrupts
from depthgate.usage import OneLineParser

VERBS = {
    "list": "depthgate.verbs.listing",
    "reproduce": "depthgate.verbs.reproduce",
    "run": "depthgate.verbs.run",
    "seal": "depthgate.verbs.seal",
    "judge": "depthgate.verbs.judge",
    "report": "depthgate.verbs.report",
    "load": "depthgate.verbs.load",
    "traffic": "depthgate.verbs.traffic",
    "serve": "depthgate.verbs.serve",
    "replay": "depthgate.verbs.replay",
    "lossless": "depthgate.verbs.lossless",
    "profile": "depthgate.verbs.profile",
    "validate": "depthgate.verbs.validate",
    "fit": "depthgate.verbs.fit",
    "doctor": "depthgate.verbs.doctor",
}
EXIT_CODES = """exit codes: 0 kept (or reproduced), 1 broken (or not reproduced), 2 usage, 3 inconclusive,
4 invalid, 70 a fault of depthgate itself, 130 interrupted"""
INTERRUPTED = 130
MACHINE_AT_FAULT = 4


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; the exit code is one of EXIT_CODES, a fault of ours with its traceback.

    SystemExit for --help and what the parser refuses.
    """
    interrupted = "interrupted"
    try:
        args, unknown = _parser().parse_known_args(argv)
        if unknown:
            args.verb_error(f"unrecognized arguments: {' '.join(unknown)}")
        interrupted = args.verb_interrupted
        with sigterm_interrupts():
            ruling = int(args.verb_main(args))
            sys.stdout.flush()  # what cannot be written is said here, not at the very end
            return ruling
    except KeyboardInterrupt:
        print(f"depthgate: {interrupted}", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # `depthgate list | head`: the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        code = _exit_code(error)
        if code is None:
            traceback.print_exc()
            print("depthgate: its own fault, no ruling; please report these lines", file=sys.stderr)
            return SOFTWARE
        print(f"depthgate: error: {_one_line(error)}", file=sys.stderr)
        return code


def _parser() -> argparse.ArgumentParser:
    parser = OneLineParser(
        prog="depthgate",
        description="Benchmarks and regression reproducers for speculative-depth governors.",
        epilog=f"example: depthgate reproduce threshold-collapse\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name, path in VERBS.items():
        _add_verb(verbs, name, import_module(path))
    return parser


def _add_verb(verbs: argparse._SubParsersAction[OneLineParser], name: str, module: ModuleType) -> None:
    parser = verbs.add_parser(
        name,
        help=module.SUMMARY,
        description=module.SUMMARY,
        epilog=f"example:\n{module.EXAMPLE}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.configure(parser)
    interrupted = getattr(module, "INTERRUPTED", "interrupted")  # a verb that leaves something says so
    parser.set_defaults(verb_main=module.main, verb_error=parser.error, verb_interrupted=interrupted)


def _exit_code(error: Exception) -> int | None:
    """Of errors that a user can mend; None = a fault of ours. Imported late: --help stays fast."""
    from engines.contract import EngineError, EngineLost
    from engines.embedded.profile import ProfileError
    from governors.registry import GovernorError
    from governors.trace_line import TraceError
    from loadgen.journal import JournalError
    from loadgen.swarm.fleet import SwarmError, SwarmLost
    from loadgen.traffic import TrafficError
    from loadgen.workers import WorkerError
    from reports.run_folder import RunFolderError
    from suites.model import SuiteError

    if isinstance(error, EngineLost | JournalError | SwarmLost | WorkerError) or _is_full(error):
        return MACHINE_AT_FAULT
    of_loads = (SuiteError, SwarmError, TraceError, TrafficError)
    named = (EngineError, GovernorError, ProfileError, RunFolderError, *of_loads)
    return USAGE if isinstance(error, (UsageError, OSError, *named)) else None


def _is_full(error: Exception) -> bool:
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def _one_line(error: Exception) -> str:
    if isinstance(error, OSError) and _is_full(error):
        where = error.filename or "the output"
        return f"{where}: cannot be written ({error.strerror}); free space, then judge what was recorded"
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split())


if __name__ == "__main__":
    sys.exit(main())
