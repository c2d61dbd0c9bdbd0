"""What is known about an engine's hierarchy that its sources do not say: names and clauses."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .book import Terms
from .contract import Mark, mark_of

__all__ = ["load_profile", "profile_names", "terms_of"]

_HERE = Path(__file__).with_name("profiles")
_KEYS = ("flags", "hooks", "modes", "own_protocol", "required", "variadic")
_CLAUSES = ("after", "assumes", "ensures", "optional", "optional_arguments", "phase", "requires")


def profile_names() -> tuple[str, ...]:
    """The profiles that come with the package."""
    return tuple(sorted(path.stem for path in _HERE.glob("*.toml")))


def load_profile(name: str | Path) -> Terms:
    """The profile of that name, or the one in that file.

    Raises :class:`ValueError` for an unknown profile and for a key or a value that a profile
    cannot have; the message names the nearest one.
    """
    path = Path(name)
    if path.suffix != ".toml":
        path = _HERE / f"{name}.toml"
        if str(name) not in profile_names():
            raise ValueError(f"unknown profile {str(name)!r}{_nearest(str(name), profile_names())}")
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return terms_of(tomllib.loads(path.read_text(encoding="utf-8")), where=str(path))


def terms_of(table: Mapping[str, Any], *, where: str = "profile") -> Terms:
    """The terms that a profile's table states.

    Raises :class:`ValueError` as :func:`load_profile` does.
    """
    _only(table, _KEYS, where)
    for name, how in table.get("flags", {}).items():
        if how not in ("any", "all", "same"):
            raise ValueError(f"{where}: flags.{name} must be any, all or same, not {how!r}")
    required = table.get("required")
    return Terms(
        marks={
            class_name: {
                hook: _mark(said, f"{where}: hooks.{class_name}.{hook}")
                for hook, said in hooks.items()
            }
            for class_name, hooks in table.get("hooks", {}).items()
        },
        required=None if required is None else frozenset(required),
        variadic=bool(table.get("variadic", True)),
        own_protocol={c: frozenset(hooks) for c, hooks in table.get("own_protocol", {}).items()},
        flags=dict(table.get("flags", {})),
        modes=dict(table.get("modes", {})),
    )


def _mark(said: Any, where: str) -> Mark:
    """One table, or a list of them where clauses differ by phase."""
    mark = Mark()
    for table in said if isinstance(said, list) else [said]:
        _only(table, _CLAUSES, where)
        try:
            mark = mark.joined(mark_of(**table))
        except SyntaxError as error:
            raise ValueError(f"{where}: {error}") from error
    return mark


def _only(table: Mapping[str, Any], keys: tuple[str, ...], where: str) -> None:
    for key in table:
        if key not in keys:
            raise ValueError(f"{where}: unknown key {key!r}{_nearest(key, keys)}")


def _nearest(word: str, words: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(word, words, 1)
    return f", did you mean {near[0]!r}?" if near else f", known are {', '.join(words)}"
