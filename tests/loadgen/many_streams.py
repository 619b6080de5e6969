"""A server for tests with thousands of streams open at once: none ends before all of them have begun."""

from __future__ import annotations

import asyncio
import resource
import sys

from tests.loadgen.servers import DONE, STREAM, Asked, chunk, event, serving

PATIENCE_S = 240.0


async def serve(streams: int) -> None:
    """Prints its URL once it listens, and how many streams were open at once when its input closes."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    open_now = 0
    all_open = asyncio.Event()

    async def answer(writer: asyncio.StreamWriter, asked: Asked) -> None:
        nonlocal open_now
        writer.write(STREAM + chunk(event("a", 1)))
        open_now += 1
        if open_now == streams:
            print(open_now, flush=True)
            all_open.set()
        await asyncio.wait_for(all_open.wait(), PATIENCE_S)
        writer.write(chunk(event("b", 3)) + chunk(DONE) + chunk(b""))

    async with serving(answer, backlog=streams) as endpoint:  # a full one drops handshakes for seconds
        print(endpoint.base_url, flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
