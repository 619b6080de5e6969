"""Keep the few source files of each tried vLLM that the plugin holds on to: `python ci/vllm_sources.py DIR`.

A wheel is hundreds of MB, the seams lie in some twenty .py files of it. For each version that DIR lacks the
wheel is downloaded with pip, DIR/vllm-VERSION.zip is written, and the wheel is deleted. Then
`DEPTHGATE_VLLM_WHEELS=DIR pytest tests/governors/test_vllm_seams.py` checks every version without running it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from governors.vllm_versions import FIELDS, SEAMS

VERSIONS = ("0.24.0", "0.26.0", "0.28.0", "0.32.0", "0.33.0")


def members() -> set[str]:
    """Paths within a wheel."""
    modules = {seam.module for seam in SEAMS} | {module for module, _, _ in FIELDS}
    return {f"{module.replace('.', '/')}.py" for module in modules}


def keep(wheel: Path, target: Path) -> None:
    """Writes the members of `wheel` that matter."""
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as kept:
        for name in sorted(members() & set(source.namelist())):
            kept.writestr(name, source.read(name))


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for version in VERSIONS:
        target = folder / f"vllm-{version}.zip"
        if target.exists():
            continue
        print(f"vllm_sources: fetching vllm {version}", file=sys.stderr)
        with tempfile.TemporaryDirectory(dir=folder) as part:
            command = [
                sys.executable,
                "-m",
                "pip",
                "download",
                "-q",
                "--no-deps",
                "-d",
                part,
                f"vllm=={version}",
            ]
            subprocess.run(command, check=True, timeout=1800)
            (wheel,) = Path(part).glob("*.whl")
            keep(wheel, target)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
