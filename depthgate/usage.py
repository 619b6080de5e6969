"""A parser whose usage errors are one line, with the verb's name and where to read on."""

from __future__ import annotations

import argparse
from typing import NoReturn

from depthgate.exits import USAGE


class OneLineParser(argparse.ArgumentParser):
    """argparse's own prints every flag of the verb before it says what is wrong."""

    def error(self, message: str) -> NoReturn:
        """One line on stderr; the exit code of usage errors."""
        said = " ".join(message.removeprefix("argument ").split())
        self.exit(USAGE, f"{self.prog}: error: {said}; see {self.prog} --help\n")
