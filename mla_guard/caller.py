"""Who made the current call?"""

from __future__ import annotations

import os
import sys

from .diagnostic import Place

__all__ = ["caller"]

STAND_IN = "<mla-guard stand-in>"
"""The file name of the guard's generated functions."""

_OWN = os.path.dirname(__file__)


def caller() -> tuple[str, Place]:
    """The nearest function on the stack that is not the guard's own, and the line it is at."""
    frame = sys._getframe(1)
    while frame.f_back is not None and (
        frame.f_code.co_filename == STAND_IN
        or os.path.dirname(frame.f_code.co_filename) == _OWN
        or frame.f_globals.get("__name__") == "contextlib"
    ):
        frame = frame.f_back
    code = frame.f_code
    name = getattr(code, "co_qualname", None)
    if name is None:  # Python 3.10
        me = frame.f_locals.get("self")
        name = code.co_name if me is None else f"{type(me).__name__}.{code.co_name}"
    return name.rpartition("<locals>.")[2], Place(code.co_filename, frame.f_lineno)
