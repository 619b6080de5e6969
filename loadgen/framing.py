"""HTTP/1.1 answers out of raw bytes (RFC 9112): head, body, and where in the raw bytes a body byte stood.

Cheap to feed late and in bulk: a client that keeps what it reads may look inside when there is time.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from engines.api_key import without_key

CRLF = b"\r\n"
MOST_HEAD = 1 << 16  # bytes of a head, or of trailers
MOST_LINE = 1 << 12  # bytes of a chunk's size and extensions
STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9][0-9])(?: [^\r\n]*)?")
CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?")
BODILESS = (204, 304)


class FramingError(ValueError):
    """The bytes are no HTTP/1.1 answer; the message says what stood there."""


class Framing:
    """One answer. `status` None: no head yet. `over`: it is whole; `reusable`: its connection may go on.

    `pieces` are body bytes in order, for whoever takes them away; `total` counts them.
    """

    __slots__ = (
        "_at_raw",
        "_body_ends",
        "_gap",
        "_left",
        "_raw_ends",
        "_rest",
        "_step",
        "chunked",
        "headers",
        "over",
        "pieces",
        "reusable",
        "status",
        "total",
    )

    def __init__(self) -> None:
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        self.chunked = self.over = self.reusable = False
        self.pieces: list[bytes] = []
        self.total = 0
        self._rest = b""
        self._at_raw = 0  # raw offset of the rest's first byte
        self._left = 0  # body bytes that the length, or the chunk's size, still promises
        self._gap = False  # the line end after a chunk's data is due
        self._body_ends, self._raw_ends = array("q"), array("q")
        self._step: Callable[[], bool] = self._head

    def feed(self, raw: bytes) -> None:
        """Takes raw bytes in any pieces. Raises FramingError; what came before it stays."""
        self._rest = self._rest + raw if self._rest else raw
        while not self.over and self._step():
            pass
        if self.over and self._rest:
            self.reusable = False  # whatever this is, nobody asked for it

    def closed(self) -> None:
        """The connection has ended: an answer without a length is whole by that."""
        if self._step == self._until_closed:
            self.over = True
        self.reusable = False

    def raw_ends(self, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        """Raw bytes that had to come for so many bytes of body (each 1 .. total) to be there: int64 (N,)."""
        body, raw = np.asarray(self._body_ends), np.asarray(self._raw_ends)
        at = np.searchsorted(body, offsets)
        ends: NDArray[np.int64] = raw[at] - (body[at] - offsets)
        return ends

    def _head(self) -> bool:
        if not b"HTTP/1."[: len(self._rest)] == self._rest[:7]:
            raise FramingError(f"it begins {_start(self._rest)}")
        end = self._rest.find(b"\r\n\r\n")
        if end < 0:
            if len(self._rest) > MOST_HEAD:
                raise FramingError(f"its head is longer than {MOST_HEAD} bytes")
            return False
        first, *lines = self._rest[:end].split(CRLF)
        found = STATUS_LINE.fullmatch(first)
        if found is None:
            raise FramingError(f"it begins {_start(first)}")
        self._drop(end + 4)
        if not 100 <= (status := int(found[2])) < 200:  # 1xx: another head follows
            self.status, self.headers = status, _fields(lines)
            self._begin_body(status, newer=found[1] == b"1")
        return True

    def _begin_body(self, status: int, newer: bool) -> None:
        headers = self.headers
        wish = headers.get("connection", "").lower()
        self.reusable = "close" not in wish and (newer or "keep-alive" in wish)
        coding = headers.get("transfer-encoding", "").lower()
        length = headers.get("content-length")
        if coding and coding != "chunked":
            raise FramingError(f"transfer-encoding {without_key(coding)[:40]!r}")
        if status in BODILESS:
            self.over = True
        elif coding:
            self.chunked, self._step = True, self._chunks
        elif length is None:
            self.reusable, self._step = False, self._until_closed
        elif not (length.isascii() and length.isdigit() and len(length) < 19):
            raise FramingError(f"content-length {without_key(length)[:40]!r}")
        else:
            self._left, self._step = int(length), self._by_length
            self.over = self._left == 0

    def _by_length(self) -> bool:
        self._take(self._left)
        self.over = self._left == 0
        return False

    def _until_closed(self) -> bool:
        self._left = len(self._rest)
        self._take(self._left)
        return False

    def _take(self, most: int) -> None:
        piece = self._rest[:most]
        if piece:
            self._left -= len(piece)
            self._drop(len(piece))
            self._keep(piece, self._at_raw)

    def _chunks(self) -> bool:
        """As many chunks as are there: the hot loop, a slice, a lookup and four appends for each."""
        text, at, left = self._rest, 0, self._left
        pieces, body_ends, raw_ends = self.pieces.append, self._body_ends.append, self._raw_ends.append
        try:
            while True:
                if left:
                    piece = text[at : at + left]
                    at += len(piece)
                    left -= len(piece)
                    if piece:
                        self.total += len(piece)
                        pieces(piece)
                        body_ends(self.total)
                        raw_ends(self._at_raw + at)
                    if left:
                        return False
                    self._gap = True
                if self._gap:
                    if len(text) < at + 2:
                        return False
                    if text[at : at + 2] != CRLF:
                        raise FramingError(f"a chunk is followed by {_start(text[at : at + MOST_LINE], 20)}")
                    at += 2
                    self._gap = False
                end = text.find(CRLF, at)
                if end < 0:
                    if len(text) - at > MOST_LINE:
                        raise FramingError(f"a chunk begins {_start(text[at : at + MOST_LINE], 20)}")
                    return False
                left = chunk_size(text[at:end])
                at = end + 2
                if not left:
                    self._step = self._trailers
                    return True
        finally:
            self._left = left
            self._drop(at)

    def _trailers(self) -> bool:
        end = 0 if self._rest.startswith(CRLF) else self._rest.find(b"\r\n\r\n") + 2
        self.over = end != 1
        if self.over:
            self._drop(end + 2)
        elif len(self._rest) > MOST_HEAD:
            raise FramingError(f"its trailers are longer than {MOST_HEAD} bytes")
        return False

    def _keep(self, piece: bytes, raw_end: int) -> None:
        self.pieces.append(piece)
        self.total += len(piece)
        self._body_ends.append(self.total)
        self._raw_ends.append(raw_end)

    def _drop(self, count: int) -> None:
        self._rest = self._rest[count:]
        self._at_raw += count


@lru_cache(maxsize=4096)
def chunk_size(line: bytes) -> int:
    """Of a chunk's first line, extensions dropped. Raises FramingError."""
    found = CHUNK_SIZE.fullmatch(line)
    if found is None:
        raise FramingError(f"a chunk begins {_start(line, 20)}")
    return int(found[1], 16)


def _fields(lines: list[bytes]) -> dict[str, str]:
    """Header lines by lower-case name; of one that stands twice the values are joined."""
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.decode("latin-1").partition(":")
        if not colon or not name or name != name.strip():
            raise FramingError(f"a header line reads {_start(line)}")
        key = name.lower()
        headers[key] = f"{headers[key]}, {value.strip()}" if key in headers else value.strip()
    return headers


def _start(raw: bytes, most: int = 40) -> str:
    """The first bytes of what came, as they are written in Python, without the API key."""
    return repr(without_key(raw.decode("latin-1")).encode("latin-1")[:most])
