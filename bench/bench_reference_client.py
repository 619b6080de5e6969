"""The load generator as a ratio to reference clients: what it reads, what it costs, how far off it is.

Two references: 30 lines of epoll that read and decode (against the server of bench_client.py), and the C++
client of shared/kit, against the kit's mock server, which logs every chunk; skipped where there is no kit.
docs/load-accuracy.md has the figures and the bars.
"""

from __future__ import annotations

import csv
import os
import selectors
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import orjson
import pytest

from bench.bench_client import STREAMS, server
from engines.contract import Endpoint
from loadgen.load_command import LoadSettings, run_load
from loadgen.records import Outcome, RequestRecord
from tests.shared_files import SHARED

__all__ = ["server"]  # a fixture

REQUESTS = 8 * STREAMS
LAST = b"0\r\n\r\n"
REPEATS = 3
KIT = SHARED / "kit"

Note = Callable[[str], None]


def reference_s(endpoint: Endpoint, requests: int) -> float:
    """Seconds to read so many answers over 16 connections and decode each event: no stamps, no records."""
    parts = urlsplit(endpoint.base_url)
    request = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
    left, waiting, picker = requests, requests, selectors.DefaultSelector()
    bodies: dict[int, list[bytes]] = {}
    began_s = time.perf_counter()
    for _ in range(STREAMS):
        connection = socket.create_connection((parts.hostname, parts.port))
        picker.register(connection, selectors.EVENT_READ)
        connection.send(request)
        left -= 1
    while waiting:
        for key, _ in picker.select():
            assert isinstance(key.fileobj, socket.socket)
            piece = key.fileobj.recv(1 << 16)
            bodies.setdefault(key.fd, []).append(piece)
            if piece.endswith(LAST):
                waiting -= 1
                if left:
                    left -= 1
                    key.fileobj.send(request)
    for line in b"".join(b"".join(pieces) for pieces in bodies.values()).split(b"\n"):
        if line.startswith(b"data: {") and line.endswith(b"}"):
            orjson.loads(line[6:])
    return time.perf_counter() - began_s


def ours_s(endpoint: Endpoint, requests: int, chunks: int) -> float:
    """The same by the load generator, records included."""
    import uvloop

    records: list[RequestRecord] = []
    settings = LoadSettings(endpoint.base_url, STREAMS, requests, chunks, model="m", workers=1)
    began_s = time.perf_counter()
    uvloop.run(run_load(settings, records.append))
    assert [record.outcome for record in records] == [Outcome.DONE] * requests
    return time.perf_counter() - began_s


def test_against_epoll(server: tuple[Endpoint, int], note: Note) -> None:
    """Interleaved; the best of each: what the machine's other work took away is no client's."""
    endpoint, chunks = server
    pairs = [(reference_s(endpoint, REQUESTS), ours_s(endpoint, REQUESTS, chunks)) for _ in range(REPEATS)]
    floor_s, own_s = (min(times) for times in zip(*pairs, strict=True))
    what = f"{REQUESTS} answers of {chunks} chunks, parsed and recorded"
    note(f"{what}: {floor_s / own_s:.2f} of the speed of epoll and orjson alone")


OFF = "TTFT p50/p99 off by {p50:+.2f}/{p99:+.2f} ms"
CASES = {
    "flood-c16": "chunks/s {chunks:.2f} of the C++ client's (bar 0.80)",
    "short-c64": "{rps:,.0f} requests/s (bar 3,870: 3 x vllm bench's 1,290)",
    "acc-c64": "chunks/s {chunks:.3f}, CPU {cpu:.1f} s per million chunks (bar 50), " + OFF,
    "acc-c256": "chunks/s {chunks:.3f} (bar 0.97), CPU {cpu:.1f} s per million chunks (bar 27), " + OFF,
}


@pytest.mark.parametrize("case", CASES)
def test_against_the_kit(case: str, note: Note, tmp_path: Path) -> None:
    """One interleaved pair; a machine that is shared shows in `foreign`, CPU seconds a second of others."""
    if not (KIT / "measure.py").exists() or shutil.which("g++") is None:
        pytest.skip("needs shared/kit and g++: the mock server and the C++ client are built from it")
    rows = tmp_path / "rows.csv"
    environment = os.environ | {"DEPTHGATE": str(Path(sys.executable).with_name("depthgate"))}
    command = [sys.executable, str(KIT / "measure.py"), "ref,depthgate", "--case", case, "--out", str(rows)]
    subprocess.run(command, check=True, env=environment, cwd=tmp_path, stdout=subprocess.DEVNULL)
    with rows.open(newline="") as file:
        floor, own = csv.DictReader(file)
    assert own["rc"] == "0", own
    figures = CASES[case].format(
        chunks=float(own["true_chunks_per_s"]) / float(floor["true_chunks_per_s"]),
        rps=float(own["true_rps"]),
        cpu=float(own["cpu_per_M_chunk"]),
        p50=float(own["rep_ttft_p50"]) - float(own["true_ttft_p50"]),
        p99=float(own["rep_ttft_p99"]) - float(own["true_ttft_p99"]),
    )
    note(f"{case}: {figures}; foreign {float(own['foreign_cpu']):.2f}")
