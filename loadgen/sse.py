"""Server-sent events from bytes: incremental, split-proof, and quick on the shape that engines send.

HTML Living Standard, 9.2.6 "Interpreting an event stream", on bytes: lines end in CRLF, LF or CR; a blank
line dispatches; comments, `id` and `retry` are dropped; an event without data is not dispatched. Text is not
decoded here, so a character that is split between two reads is whole again by the time its event is.
"""

from __future__ import annotations

from typing import NamedTuple

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class SseEvent(NamedTuple):
    """`end`: stream offset just past the first byte of the blank line's end: the event was whole there."""

    kind: bytes  # b"" when no `event:` field named one
    data: bytes
    end: int


class SseParser:
    """Feed it bytes as they come; the events do not depend on where the bytes were split.

    Bytes after the last line end wait for more; `unfinished()` says what an end of stream cut off.
    """

    def __init__(self) -> None:
        self._tail: list[bytes] = []  # a line that has not ended yet
        self.offset = 0  # stream offset of the tail's first byte
        self._at_start = True
        self._skip_lf = False  # the last line ended in CR: an LF right after belongs to it
        self._kind = b""
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> list[SseEvent]:
        """Events that became whole with this piece."""
        if b"\n" not in piece and b"\r" not in piece:
            if piece:
                self._tail.append(piece)
            return []
        text = b"".join((*self._tail, piece))
        cut = max(text.rfind(b"\n"), text.rfind(b"\r")) + 1
        self._tail = [text[cut:]] if cut < len(text) else []
        return self._whole_lines(text[:cut])

    @property
    def between_events(self) -> bool:
        """Nothing is pending: what comes next begins a line, and an event."""
        return not (self._tail or self._kind or self._data or self._skip_lf)

    def pass_over(self, size: int) -> None:
        """So many bytes of whole events that came between events and were read elsewhere."""
        self.offset += size
        self._at_start = False

    def unfinished(self) -> bytes:
        """Data of the event that never got its blank line, as the standard tells a browser to discard."""
        rest = SseParser()
        rest._data, rest._at_start, rest._skip_lf = list(self._data), self._at_start, self._skip_lf
        for event in rest.feed(b"".join(self._tail) + b"\n\n"):
            return event.data
        return b""

    def _whole_lines(self, text: bytes) -> list[SseEvent]:
        if self._at_start:
            self._at_start = False
            if text.startswith(BYTE_ORDER_MARK):
                text, self.offset = text[3:], self.offset + 3
        if self._skip_lf:
            self._skip_lf = False
            if text.startswith(b"\n"):
                text, self.offset = text[1:], self.offset + 1
        if b"\r" in text or self._data or self._kind:
            return self._by_line(text)
        return self._by_block(text)

    def _by_block(self, text: bytes) -> list[SseEvent]:
        """The quick path: LF only, nothing pending. A block that is not one `data: ` line goes by line."""
        events: list[SseEvent] = []
        blocks, new = text.split(b"\n\n"), tuple.__new__  # a third of what SseEvent(...) takes
        last = blocks.pop()
        for block in blocks:
            if block[:6] == b"data: " and b"\n" not in block:
                self.offset += len(block) + 2
                events.append(new(SseEvent, (b"", block[6:], self.offset)))
            else:
                events += self._by_line(block + b"\n\n")
        if last:
            events += self._by_line(last)
        return events

    def _by_line(self, text: bytes) -> list[SseEvent]:
        events: list[SseEvent] = []
        for line in text.splitlines(keepends=True):  # bytes split on CR, LF and CRLF only
            body = line.rstrip(b"\r\n")
            if body:
                self._field(body)
            elif self._data:
                events.append(SseEvent(self._kind, b"\n".join(self._data), self.offset + 1))
            if not body:
                self._kind, self._data = b"", []
            self.offset += len(line)
        self._skip_lf = text.endswith(b"\r")
        return events

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._kind = value
