"""An engine's own environment holds numpy and little else: governors must not ask for more."""

from __future__ import annotations

import subprocess
import sys

PROBE = """
import sys
before = set(sys.modules)
import {module}
roots = {{name.split(".")[0] for name in set(sys.modules) - before}}
print(*sorted(root for root in roots if root not in sys.stdlib_module_names))
"""


def _imports(module: str) -> set[str]:
    command = [sys.executable, "-c", PROBE.format(module=module)]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return set(found.stdout.split())


def test_governors_pull_in_numpy_alone() -> None:
    assert _imports("governors") == {"governors", "numpy"}
    assert _imports("governors.registry") == {"governors", "numpy"}
    assert _imports("governors.replay") == {"governors", "numpy"}
