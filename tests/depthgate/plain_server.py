"""A pass-through for tests: any OpenAI-compatible server, seen without the embedded engine's own routes."""

from __future__ import annotations

import asyncio
import sys

from aiohttp import ClientSession, web


async def serve(behind: str) -> None:
    """Prints its URL once it listens."""
    async with ClientSession() as session:

        async def passed(request: web.Request) -> web.StreamResponse:
            if request.path.startswith("/depthgate"):
                return web.Response(status=404)
            body = await request.read()
            headers = {"Content-Type": request.headers.get("Content-Type", "application/json")}
            async with session.request(
                request.method, behind + request.path, data=body, headers=headers
            ) as got:
                answer = web.StreamResponse(status=got.status, headers={"Content-Type": got.content_type})
                await answer.prepare(request)
                async for piece in got.content.iter_any():
                    await answer.write(piece)
                await answer.write_eof()
                return answer

        app = web.Application()
        app.router.add_route("*", "/{path:.*}", passed)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        print(f"http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
