"""The same engine under other names: classes, functions, attributes, parameters and variables.

A linter that knows an engine's names, rather than its structure, finds something else afterwards.
"""

from __future__ import annotations

import ast
import builtins
import keyword
import re
from collections.abc import Collection, Iterable

__all__ = ["Renaming"]

_WORD = re.compile(r"\b[A-Za-z_]\w*\b")
_STRING_PREFIXES = ("b", "br", "f", "fr", "r", "rb", "rf", "u")


class Renaming:
    """A consistent renaming of what ``sources`` define, ``keep`` and imported modules aside.

    The new names sort as the old ones do, so that lists in messages keep their order, and stay
    private or capitalized, which has a meaning in Python.
    """

    def __init__(self, sources: Iterable[str], keep: Collection[str]) -> None:
        names: set[str] = set()
        kept: set[str] = {
            *keep,
            *keyword.kwlist,
            *keyword.softkwlist,
            *dir(builtins),
            *_STRING_PREFIXES,
            "self",
            "cls",
        }
        for source in sources:
            for node in ast.walk(ast.parse(source)):
                names.update(_defined(node))
                kept.update(_foreign(node))
        ordered = sorted(n for n in names - kept if not n.startswith("__"))
        self._new = {name: _other(name, index) for index, name in enumerate(ordered)}
        self._old = {new: name for name, new in self._new.items()}

    def __len__(self) -> int:
        return len(self._new)

    def apply(self, text: str) -> str:
        """``text`` under the new names; strings too, since ``getattr`` looks names up in them."""
        return _WORD.sub(lambda word: self._new.get(word[0], word[0]), text)

    def undo(self, text: str) -> str:
        """A message about the renamed sources, in the old names."""
        return _WORD.sub(lambda word: self._old.get(word[0], word[0]), text)


def _other(name: str, index: int) -> str:
    bare = name.lstrip("_")
    stem = "Name" if bare[:1].isupper() else "name"
    return f"{'_' * (len(name) - len(bare))}{stem}{index:05}"


def _defined(node: ast.AST) -> Iterable[str]:
    if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        return (node.name,)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        # What others define (``torch.empty``, ``names.append``) is not the engine's to rename.
        return (node.attr,) if node.value.id in ("self", "cls") else ()
    if isinstance(node, ast.arg):
        return (node.arg,)
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return (node.id,)
    return ()


def _foreign(node: ast.AST) -> Iterable[str]:
    """Names of modules: they stand in paths, which stay as they are."""
    if isinstance(node, ast.Import):
        return [part for alias in node.names for part in alias.name.split(".")]
    if isinstance(node, ast.ImportFrom):
        return (node.module or "").split(".")
    return ()
