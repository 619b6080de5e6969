"""One streamed request under gevent, never retried: sends, stamps, keeps the bytes, and says how it ended.

Over the connections of geventhttpclient, which locust's FastHttpUser uses, and with loadgen.reads' reader on
them. Not through FastHttpUser.client: that one knows no time before the headers were read, reads a refusal's
body itself, follows redirects and keeps cookies.
"""

from __future__ import annotations

import select
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import quote, urlsplit

import gevent
import gevent.socket
from gevent.monkey import get_original
from gevent.ssl import create_default_context
from geventhttpclient.connectionpool import ConnectionPool, SSLConnectionPool

from engines.certificates import check_certificates
from loadgen.dialogue import Message
from loadgen.exchange import Exchange
from loadgen.reads import Clock, Reads
from loadgen.request import ROUTES, ClientSettings, header_lines, request_body, request_headers
from loadgen.stamps import ROOM, KernelStamps
from loadgen.traffic import Prompt
from loadgen.transcript import excerpt
from loadgen.verdict import End, Ending, ending_of
from loadgen.wire import CLASS_HEADER, KEEPALIVE_S, WireError

MOST_CONNECTIONS = 65_536
_poll = get_original("select", "poll")  # of the system, patched or not
READ_BYTES = 1 << 16


class _Plain(ConnectionPool):
    """Connections that a server may be about to close are not used again."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._idle_since_s: dict[gevent.socket.socket, float] = {}

    def after_connect(self, sock: gevent.socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def return_socket(self, sock: gevent.socket.socket) -> None:
        self._idle_since_s[sock] = time.monotonic()
        super().return_socket(sock)

    def _is_socket_alive(self, sock: gevent.socket.socket | None) -> bool:
        """Without select: gevent's lets others run first, a quarter of a millisecond before each request."""
        if sock is None or time.monotonic() - self._idle_since_s.pop(sock, 0.0) >= KEEPALIVE_S:
            return False
        poll = _poll()
        poll.register(sock.fileno(), select.POLLIN)
        return not poll.poll(0)


class _Tls(_Plain, SSLConnectionPool):
    """The same over TLS."""


class StreamClient:
    """Connections to one server, for all users of a worker; TLS is verified. ValueError on a bad URL."""

    def __init__(self, base_url: str, model: str, settings: ClientSettings, clock: Clock) -> None:
        url = urlsplit(base_url.rstrip("/"))
        if url.scheme not in ("http", "https") or not url.hostname:
            raise ValueError(f"URL {base_url!r}: write http://127.0.0.1:8000")
        check_certificates(base_url)
        tls = url.scheme == "https"
        self._host, self._port = url.hostname, url.port or (443 if tls else 80)
        self._model = model
        self._settings = settings
        self._clock = clock
        self._stamps = None if tls else KernelStamps(clock)
        self._pool = self._connections(tls)
        self._head = _head(url.path + ROUTES[settings.route], url.netloc.rpartition("@")[2])

    def _connections(self, tls: bool) -> ConnectionPool:
        make: Callable[..., ConnectionPool] = _Tls if tls else _Plain
        how: dict[str, Any] = {"network_timeout": None, "connection_timeout": None}  # one deadline for all
        if tls:
            how |= {"ssl_context_factory": create_default_context, "insecure": False}
        return make(self._host, self._port, self._host, self._port, size=MOST_CONNECTIONS, **how)

    def close(self) -> None:
        self._pool.close()

    def connect(self, connections: int) -> None:
        """Opens connections ahead of the load; a server that is not there is for the requests to say."""
        opening = [gevent.spawn(self._opened) for _ in range(connections)]
        gevent.joinall(opening, timeout=5.0)
        for each in opening:
            if each.successful():
                self._pool.return_socket(each.value)
            else:
                each.kill()

    def send(
        self, prompt: Prompt, due_s: float, before: Sequence[Message] = ()
    ) -> tuple[Exchange, BaseException | None]:
        """One request. Second: the cancellation that ended it, which the caller raises anew, else None."""
        keeps_text = self._settings.keep_text or not prompt.last
        reads, sent, cancelled = Reads(streams=not keeps_text), _Sent(), None
        deadline = gevent.Timeout.start_new(max(0.0, due_s + self._settings.timeout_s - self._clock()))
        try:
            self._exchange(self._request(prompt, before), reads, sent)
            ending = ending_of(reads)
        except gevent.Timeout as timeout:
            ending = Ending(End.DEADLINE, f"no end within {self._settings.timeout_s:g} s")
            cancelled = None if timeout is deadline else timeout
        except gevent.GreenletExit as error:
            ending, cancelled = Ending(End.CANCEL), error
        except WireError as error:
            ending = Ending(End.FAULT, str(error))
        except OSError as error:
            reads.ended(error)
            ending = ending_of(reads)
        finally:
            deadline.close()
        ended_s = reads.times[-1] if reads.times else self._clock()
        said = reads.text() if keeps_text and reads.status == 200 else None
        exchange = Exchange(due_s, sent.at_s, reads.status, reads, ending, ended_s, reads.headers, said)
        return exchange, cancelled

    def _request(self, prompt: Prompt, before: Sequence[Message]) -> bytes:
        body = request_body(self._model, self._settings, prompt, before)
        name = quote(prompt.traffic_class, safe=" ")
        own = f"{CLASS_HEADER}: {name}\r\nContent-Length: {len(body)}\r\n\r\n"
        return b"".join((self._head, own.encode(), body))

    def _exchange(self, request: bytes, reads: Reads, sent: _Sent) -> None:
        sock = self._opened()
        whole = False
        try:
            since_s = self._clock() if self._stamps is None else self._stamps.align()
            sent.at_s = self._clock()
            sock.sendall(request)
            self._read(sock, reads, since_s)
            whole = reads.reusable
        finally:
            if whole:
                self._pool.return_socket(sock)
            else:
                self._pool.release_socket(sock)  # an answer may still be on its way: nobody else must get it

    def _read(self, sock: gevent.socket.socket, reads: Reads, since_s: float) -> None:
        stamps, clock = self._stamps, self._clock
        over = False
        while not over:
            if stamps is None:
                piece, ancillary = sock.recv(READ_BYTES), []
            else:
                piece, ancillary, _, _ = sock.recvmsg(READ_BYTES, ROOM)
            if not piece:
                return reads.ended(None)
            now_s = (
                clock()
                if stamps is None
                else stamps.read_s(ancillary, reads.times[-1] if reads.times else since_s)
            )
            over = reads.keep(now_s, piece)

    def _opened(self) -> gevent.socket.socket:
        """A connection, kept or new. Raises WireError: no such host, nobody listens, TLS fails."""
        try:
            sock = self._pool.get_socket()
        except socket.gaierror:
            raise WireError(f"cannot resolve host {self._host!r}") from None
        except ssl.SSLError as error:
            raise WireError(f"TLS: {excerpt(error)}") from None
        except OSError as error:
            reason = error.strerror or excerpt(error)
            raise WireError(f"cannot connect to {self._host}:{self._port}: {reason}") from None
        if self._stamps is not None:
            self._stamps.ask(sock)
        return sock


class _Sent:
    """When the request left; whoever cancels it still finds it here."""

    at_s: float | None = None


def _head(target: str, host: str) -> bytes:
    """Raises ValueError on a line break inside a value, such as a key pasted with one."""
    return f"POST {target} HTTP/1.1\r\n".encode() + header_lines({"Host": host, **request_headers()})
