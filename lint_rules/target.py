"""Where a command-line argument points: a file, a directory or an installed package."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["TargetError", "inside", "project_of", "resolve", "resolve_targets"]

_SITE_DIRECTORIES = ("site-packages", "dist-packages")


class TargetError(ValueError):
    """An argument that names nothing that can be read; the message says what was looked for."""


def resolve_targets(arguments: Sequence[str]) -> tuple[Path, ...]:
    """The absolute paths that ``arguments`` name, relative to the current directory."""
    here = Path.cwd()
    return tuple(dict.fromkeys(path for a in arguments for path in resolve(a, here)))


def resolve(argument: str, relative_to: Path) -> tuple[Path, ...]:
    """The absolute paths of one argument; several only for a namespace package.

    An existing path wins over an installed package of the same name.
    """
    path = Path(os.path.abspath(relative_to / argument))
    if path.is_dir():
        return (path,)
    if path.exists():
        if path.suffix not in (".py", ".pyi"):
            raise TargetError(f"{argument!r} is neither a directory nor a Python file")
        return (path,)
    if all(part.isidentifier() for part in argument.split(".")):
        if found := _installed(argument):
            return found
        raise TargetError(
            f"no file, directory or installed package is named {argument!r} "
            f"(packages are looked for in {sys.prefix})"
        )
    raise TargetError(f"no such file or directory: {argument!r}")


def _installed(name: str) -> tuple[Path, ...]:
    """The sources of an installed module or package, found without importing anything."""
    top, *rest = name.split(".")
    try:
        # Only dotted names make find_spec import something: the parents.
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return ()
    if spec is None:
        return ()
    if spec.submodule_search_locations is None:
        origin = Path(spec.origin or "")
        return (origin,) if origin.suffix == ".py" and not rest else ()
    found = (Path(place, *rest) for place in spec.submodule_search_locations)
    candidates = (p if p.is_dir() else p.with_name(f"{p.name}.py") for p in found)
    return tuple(Path(os.path.abspath(p)) for p in candidates if p.exists())


def inside(path: Path, directory: Path) -> bool:
    """Whether ``path`` is ``directory`` or lies below it."""
    return path == directory or directory in path.parents


def project_of(target: Path) -> Path:
    """What has to be read to judge ``target``.

    The nearest ancestor (or itself) with a ``pyproject.toml``; the whole installed package where
    the target is a part of one, whose environment may well stand inside another project; else the
    target itself.
    """
    for candidate in (target, *target.parents):
        if (candidate / "pyproject.toml").is_file():
            return candidate
        if candidate.parent.name in _SITE_DIRECTORIES:
            return candidate
    return target
