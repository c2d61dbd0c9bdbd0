"""Which files of a release a tool reads: all but tests, or those where known faults could show."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from tests.field.cases import Case

__all__ = ["FOLDERS", "in_folders", "read_files"]

FOLDERS = ("attention", "mem_cache", "spec_decode", "speculative")
"""Names of folders that hold backends, pools, and the workers that call them."""

_TESTS = {"test", "tests", "testing"}
_MOST_MENTIONS = 70


def read_files(scope: str, root: Path, engine: str, known: Sequence[Case]) -> list[str]:
    """The files below ``root``, as paths from there, that a tool reads of a release.

    ``scope`` is ``tree``, ``folders`` or ``named``, see ``side_by_side.toml``; the last two add the
    files of the faults ``known`` in that release, and those that say a word which a finding must
    mention, unless so many files say it that it leads nowhere.
    """
    below = (path.relative_to(root) for path in sorted((root / engine).rglob("*.py")))
    everything = [path.as_posix() for path in below if not any(map(_is_test, path.parts))]
    if scope == "tree":
        return everything
    wanted = {case.path for case in known}
    if scope == "folders":
        wanted.update(path for path in everything if in_folders(path))
    patterns = {w: re.compile(rf"\b{re.escape(w)}\b".encode()) for c in known for w in c.words}
    mentions: dict[str, list[str]] = {word: [] for word in patterns}
    for path in everything if patterns else ():
        data = (root / path).read_bytes()
        for word, pattern in patterns.items():
            if pattern.search(data):
                mentions[word].append(path)
    for paths in mentions.values():
        if len(paths) <= _MOST_MENTIONS:
            wanted.update(paths)
    return sorted(wanted)


def in_folders(path: str) -> bool:
    """Whether a path leads through one of :data:`FOLDERS`."""
    return not set(FOLDERS).isdisjoint(path.split("/"))


def _is_test(name: str) -> bool:
    return name in _TESTS or name.startswith(("test_", "conftest."))
