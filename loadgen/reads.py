"""Stamps every read of a response at the socket, before any task is woken, and keeps the bytes for later.

aiohttp wakes the reading task one loop turn after the socket read, behind every other socket that was ready;
with 256 streams in step that is milliseconds. So the stamp is taken in the connection's `data_received`, and
the reading task sleeps until the response has ended: a chunk costs a call, a float and a slice of bytes.
"""

from __future__ import annotations

import asyncio
import ssl
from array import array
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

import aiohttp
from aiohttp.client_proto import ResponseHandler

from loadgen.transcript import Transcript, TranscriptReader

Clock = Callable[[], float]

KEEPALIVE_S = 4.0  # below uvicorn's 5 s: a server must not close a connection just as it is used again
READ_BUFFER = 1 << 20  # one socket read must fit, or aiohttp's flow control cuts it in two
PARSE_ABOVE = 1 << 18  # bytes of one stream kept unparsed at most
MOST_BYTES = 1 << 26  # of one answer, some 200,000 tokens: a server that never stops must not fill the memory
HEAD = 4096  # bytes of a body kept for an error's words


class Reads:
    """One response: when each read came, how many body bytes were there by then, and the bytes.

    first_s   the first read, headers included; None = nothing came
    times     seconds, of reads that carried body bytes; `ends`: body bytes received by then
    lost      what ended the connection in the middle of the response; None = nothing did
    flood     why the rest was not read; None = it was
    streams   False: the body is no event stream, keep it whole for `text()`
    """

    __slots__ = (
        "_head",
        "_pieces",
        "_reader",
        "_streams",
        "_unparsed",
        "ends",
        "first_s",
        "flood",
        "lost",
        "times",
    )

    def __init__(self, streams: bool = True) -> None:
        self._streams = streams
        self.first_s: float | None = None
        self.times = array("d")
        self.ends = array("q")
        self.lost: BaseException | None = None
        self.flood: str | None = None
        self._head = b""
        self._pieces: list[bytes] = []
        self._unparsed = 0
        self._reader: TranscriptReader | None = None  # made with the first parse: most of an empty one's cost

    @property
    def total(self) -> int:
        """Body bytes received."""
        return self.ends[-1] if self.ends else 0

    def keep(self, now_s: float, piece: bytes) -> None:
        """Stamps and keeps a piece of the body; parses early only when a stream has grown big."""
        self.times.append(now_s)
        self.ends.append(self.total + len(piece))
        self._pieces.append(piece)
        self._unparsed += len(piece)
        if self._unparsed > PARSE_ABOVE and self._streams:
            self._parse()

    def head(self) -> bytes:
        """The first bytes of the body, for an error's words."""
        return (self._head + b"".join(self._pieces))[:HEAD] if len(self._head) < HEAD else self._head

    def text(self) -> str:
        """The whole body, when it is no event stream."""
        return b"".join(self._pieces).decode("utf-8", "replace")

    def transcript(self, max_tokens: int) -> Transcript:
        """Parses what is left; the expensive part, kept off the moments when streams are read."""
        return self._parse().transcript(max_tokens)

    def arrivals(self, offsets: Sequence[int]) -> tuple[float, ...]:
        """When the byte before each stream offset had arrived."""
        return tuple(self.times[bisect_left(self.ends, offset)] for offset in offsets)

    def _parse(self) -> TranscriptReader:
        body = b"".join(self._pieces)
        self._head = (self._head + body[:HEAD])[:HEAD]
        self._pieces.clear()
        self._unparsed = 0
        reader = self._reader = self._reader or TranscriptReader()
        reader.feed(body)
        return reader


class StampingHandler(ResponseHandler):
    """aiohttp's connection, with a stamp on each read. `begin` comes before each request."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        super().__init__(loop)
        self.reads = Reads()
        self._clock = clock
        self._taking = False

    def begin(self, streams: bool) -> Reads:
        """Makes ready for one response."""
        self.reads = Reads(streams)
        self.set_response_params(read_until_eof=True, read_bufsize=READ_BUFFER)
        return self.reads

    def data_received(self, data: bytes) -> None:
        now_s = self._clock()
        if self.reads.first_s is None:
            self.reads.first_s = now_s
        super().data_received(data)
        self._take(now_s)

    def connection_lost(self, exc: BaseException | None) -> None:
        self.reads.lost = exc or EOFError("connection closed by the server")
        super().connection_lost(exc)

    def _take(self, now_s: float) -> None:
        """Moves what the parser has put into the payload over to `reads`.

        Emptying the payload can resume a paused parser, which calls `data_received` again from inside: only
        the outermost call takes, or pieces would change places.
        """
        payload = self._payload
        if self._taking or payload is None or payload.exception() is not None:
            return
        self._taking = True
        try:
            if piece := payload.read_nowait(-1):
                self.reads.keep(now_s, piece)
        finally:
            self._taking = False
        if self.reads.total > MOST_BYTES and self.reads.flood is None:
            self.reads.flood = f"more than {MOST_BYTES >> 20} MiB in one answer"
            payload.set_exception(aiohttp.ClientPayloadError(self.reads.flood))
            self.close()


class StampingConnector(aiohttp.TCPConnector):
    """As many connections as the load asks for, each of them stamping.

    Raises RuntimeError on an aiohttp without the seam (BaseConnector._factory, there since aiohttp 3.0).
    """

    def __init__(self, clock: Clock, tls: ssl.SSLContext | bool = True) -> None:
        super().__init__(limit=0, keepalive_timeout=KEEPALIVE_S, ssl=tls)
        if not hasattr(self, "_factory"):
            raise RuntimeError(
                f"aiohttp {aiohttp.__version__}: TCPConnector has no _factory to stamp reads through; "
                "install the version that ci/requirements-bench.lock names"
            )
        factory = partial(StampingHandler, loop=self._loop, clock=clock)
        self._factory = cast("partial[ResponseHandler]", factory)
