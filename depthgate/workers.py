"""Jobs over worker processes, each of which takes one job after the other; Ctrl-C ends them all."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing.connection import wait
from typing import TypeVar

Job = TypeVar("Job")
Result = TypeVar("Result")


def run_jobs(
    work: Callable[[Job], Result],
    jobs: Sequence[Job],
    workers: int,
    on_done: Callable[[int, Job, Result], None],
) -> list[Result]:
    """`work` of every job, in the order of `jobs`; `on_done` (count so far, job, result) as each ends.

    One worker: in this process. The first error ends all and is raised, and so is KeyboardInterrupt.
    """
    if workers == 1:
        results = []
        for count, job in enumerate(jobs, start=1):
            results.append(work(job))
            on_done(count, job, results[-1])
        return results
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=spawn, initializer=_follow_parent) as pool:
        try:
            futures = [pool.submit(work, job) for job in jobs]
            number = {future: at for at, future in enumerate(futures)}
            for count, future in enumerate(as_completed(futures), start=1):
                on_done(count, jobs[number[future]], future.result())
            return [future.result() for future in futures]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in multiprocessing.active_children():
                child.terminate()
            raise


def _follow_parent() -> None:
    """A worker leaves Ctrl-C to its parent, and ends with it however that ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
