"""One event loop for a verb: uvloop where it is installed; Ctrl-C and SIGTERM cancel what runs."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


def run_loop(main: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
    """Run to the end. Raises KeyboardInterrupt once a cancelled run has put its records away."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            return runner.run(_with_sigterm(main))
    finally:
        signal.signal(signal.SIGTERM, before)  # the loop leaves the default behind: to die without a word


async def _with_sigterm(main: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
    task = asyncio.current_task()
    assert task is not None
    ended: list[int] = []

    def end() -> None:
        ended.append(signal.SIGTERM)
        task.cancel()

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end)
    try:
        return await main()
    except asyncio.CancelledError:
        if ended:
            raise KeyboardInterrupt from None
        raise


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
