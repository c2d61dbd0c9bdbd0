"""What an attention backend owes its engine, and the guard that holds it to it.

Importing this package loads the standard library only.
"""

from __future__ import annotations

__version__ = "0.1.0"
