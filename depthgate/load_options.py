"""The flags that say what sends a run's requests, and what they amount to."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from depthgate.exits import UsageError
from depthgate.options import address, whole
from suites.limits import MOST_WORKERS

if TYPE_CHECKING:
    from depthgate.load_drivers import LoadChoice

WEB_PORT = 8089  # locust's own
OF_LOCUST = ("workers", "expect_workers", "bind", "master_port", "web")


def add_load_flags(parser: argparse.ArgumentParser) -> None:
    """As `depthgate run` has them; docs/locust.md."""
    group = parser.add_argument_group("load", "one process sends all requests, or locust's (docs/locust.md)")
    group.add_argument("--load", choices=("asyncio", "locust"), help="default: asyncio, this process")
    group.add_argument(
        "--workers", type=whole(1, MOST_WORKERS), metavar="N", help="locust processes here; default: 1"
    )
    group.add_argument(
        "--expect-workers",
        type=whole(1, MOST_WORKERS),
        metavar="N",
        help="wait for locust workers of other machines instead",
    )
    group.add_argument(
        "--bind",
        type=address,
        metavar="HOST",
        help="where workers and the web page come to; default: 127.0.0.1",
    )
    group.add_argument(
        "--master-port",
        type=whole(1, 65_535),
        metavar="PORT",
        help="for workers of other machines; default: 5557",
    )
    group.add_argument(
        "--web",
        type=whole(1, 65_535),
        nargs="?",
        const=WEB_PORT,
        metavar="PORT",
        help="locust's page; default: 8089",
    )


def load_choice(args: argparse.Namespace) -> LoadChoice:
    """Raises UsageError for flags that do not go together."""
    from depthgate.load_drivers import LoadChoice
    from loadgen.swarm.fleet import FleetSettings

    given = [name for name in OF_LOCUST if getattr(args, name) is not None]
    if args.load != "locust":
        if given:
            raise UsageError(f"--{given[0].replace('_', '-')}: needs --load locust; add it, or drop the flag")
        return LoadChoice()
    if args.clock == "virtual":
        raise UsageError("--load locust: sends over HTTP, which has no virtual clock; drop --clock virtual")
    if args.workers is not None and args.expect_workers is not None:
        raise UsageError("--workers and --expect-workers: workers are started here or awaited; drop one")
    bind = args.bind or "127.0.0.1"
    fleet = FleetSettings(args.workers or 1, args.expect_workers, bind, args.master_port, args.web)
    return LoadChoice("locust", fleet)
