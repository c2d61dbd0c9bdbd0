"""``mla-guard verify MODULE:CLASS``."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Sequence
from typing import Any

from .book import declarations
from .contract import name_of
from .verification import breaches

__all__ = ["main_verify"]


def main_verify(targets: Sequence[str]) -> int:
    """Verify each ``MODULE:CLASS`` and print every breach.

    Returns 0 where all is right, 1 where something is not, and 2 where a target could not be
    checked: nothing to import, no class or instance, or no guarded base.
    """
    worst = 0
    for target in targets:
        try:
            found = _found(target)
        except _NotChecked as reason:
            print(f"{target}: {reason}", file=sys.stderr)
            worst = 2
            continue
        for diagnostic in found:
            print(diagnostic.text())
        if found:
            worst = max(worst, 1)
        else:
            print(f"{target}: verified")
    if not targets:
        print("nothing to verify: name at least one MODULE:CLASS", file=sys.stderr)
        return 2
    return worst


class _NotChecked(Exception):
    pass


def _found(target: str) -> tuple[Any, ...]:
    module, colon, name = target.partition(":")
    if not (module and colon and name):
        raise _NotChecked("is not of the form MODULE:CLASS")
    try:
        found: Any = importlib.import_module(module)
    except (Exception, SystemExit) as error:  # whatever the module does when it is imported
        raise _NotChecked(f"cannot be imported: {type(error).__name__}: {error}") from error
    for part in name.split("."):
        try:
            found = inspect.getattr_static(found, part)
        except AttributeError as error:
            raise _NotChecked(f"has no {part!r}") from error
    cls = found if isinstance(found, type) else type(found)
    if not declarations(cls):
        raise _NotChecked(f"{name_of(cls)} has no guarded base: nothing to verify")
    return breaches(found)
