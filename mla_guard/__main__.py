"""``python -m mla_guard``."""

from __future__ import annotations

import sys

from mla_guard.cli import main

if __name__ == "__main__":
    sys.exit(main())
