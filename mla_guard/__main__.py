"""``mla-guard`` and ``python -m mla_guard``: the command line as a process of its own."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from mla_guard.cli import main

__all__ = ["command"]


def command() -> NoReturn:
    """Run one verb and end the process with its exit code."""
    code = main()
    if "lint_rules.link" in sys.modules:
        # a linked project: what the interpreter takes apart in a tenth of a check, and the system
        # takes back at once
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


if __name__ == "__main__":
    command()
