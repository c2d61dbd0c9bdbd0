"""The switch ``MLA_GUARD``, read once."""

from __future__ import annotations

import functools
import os
from typing import Literal, TypeAlias, cast

__all__ = ["Mode", "mode"]

Mode: TypeAlias = Literal["off", "warn", "raise"]


@functools.cache
def mode() -> Mode:
    """``raise`` unless ``MLA_GUARD`` says ``off`` or ``warn``.

    Raises :class:`ValueError` for any other value.
    """
    value = os.environ.get("MLA_GUARD", "raise")
    if value not in ("off", "warn", "raise"):
        raise ValueError(f"MLA_GUARD must be off, warn or raise, not {value!r}")
    return cast("Mode", value)
