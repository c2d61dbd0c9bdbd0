"""What ``.gitignore`` files leave out, as git decides it: the deepest file that says anything."""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

__all__ = ["Ignored"]

_SPECIAL = frozenset("*?[]\\/! ")


class Ignored:
    """The ``.gitignore`` files around and below ``top``; those below are added on the way down.

    Those above count as far as the folder that holds ``.git``; outside of a repository there are
    none. Patterns of the user (``core.excludesFile``) do not count: a check gives everybody the
    same findings.
    """

    def __init__(self, top: str) -> None:
        self._specs: dict[str, _Patterns] = {}
        for folder in _above(top):
            self.enter(folder)

    def enter(self, folder: str) -> None:
        """Take the ``.gitignore`` of ``folder`` into account, and of a repository its excludes."""
        lines: list[str] = []
        for name in (os.path.join(".git", "info", "exclude"), ".gitignore"):
            try:
                with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                    lines += [line for line in file.read().split("\n") if _says_something(line)]
            except OSError:
                continue  # git, too, goes on without a file that it cannot read
        if lines:
            self._specs[folder] = _Patterns(lines)

    def leaves_out(self, path: str, *, folder: bool) -> bool:
        """Whether ``path`` is ignored; nothing below an ignored folder may be asked for."""
        if not self._specs:
            return False
        above = os.path.dirname(path)
        while True:
            spec = self._specs.get(above)
            if spec is not None:
                relative = path[len(above.rstrip(os.sep)) + 1 :]
                found = spec.judge(relative, folder)
                if found is not None:
                    return found
            higher = os.path.dirname(above)
            if higher == above:
                return False
            above = higher


def _above(top: str) -> list[str]:
    """The folders of the repository above ``top``, outermost first."""
    found: list[str] = []
    folder = top
    while True:
        if os.path.lexists(os.path.join(folder, ".git")):
            return found[::-1]
        higher = os.path.dirname(folder)
        if higher == folder:
            return []
        folder = higher
        found.append(folder)


def _says_something(line: str) -> bool:
    line = line.strip()
    return bool(line) and not line.startswith("#")


class _Patterns:
    """The patterns of one folder. Most are names or endings, which a look at the name settles."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        names: set[str] = set()
        endings: set[str] = set()
        others: list[str] = []
        for line in lines:
            name = line.strip().removeprefix("!").removesuffix("/")
            ending = name.removeprefix("*")
            if _SPECIAL.isdisjoint(name):
                names.add(name)
            elif ending and _SPECIAL.isdisjoint(ending):
                endings.add(ending)
            else:
                others.append(line)
        self._names = names
        self._endings = tuple(endings)
        self._others = _spec(others) if others else None

    @cached_property
    def _all(self) -> GitIgnoreSpec:
        return _spec(self._lines)

    def judge(self, relative: str, folder: bool) -> bool | None:
        """Whether a path is ignored, None where no pattern says anything of it."""
        name = relative.rpartition("/")[2]
        named = name in self._names or name.endswith(self._endings)
        spec = self._all if named else self._others
        return spec.check_file(f"{relative}/" if folder else relative).include if spec else None


def _spec(lines: list[str]) -> GitIgnoreSpec:
    from pathspec import GitIgnoreSpec

    return GitIgnoreSpec.from_lines(lines)
