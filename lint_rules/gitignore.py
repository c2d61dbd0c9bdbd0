"""What ``.gitignore`` files leave out, as git decides it: the deepest file that says anything."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

__all__ = ["Ignored"]


class Ignored:
    """The ``.gitignore`` files around and below ``top``; those below are added on the way down.

    Those above count as far as the folder that holds ``.git``; outside of a repository there are
    none. Patterns of the user (``core.excludesFile``) do not count: a check gives everybody the
    same findings.
    """

    def __init__(self, top: str) -> None:
        self._specs: dict[str, GitIgnoreSpec] = {}
        for folder in _above(top):
            self.enter(folder)

    def enter(self, folder: str) -> None:
        """Take the ``.gitignore`` of ``folder`` into account, and of a repository its excludes."""
        lines: list[str] = []
        for name in (os.path.join(".git", "info", "exclude"), ".gitignore"):
            try:
                with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                    lines += [line for line in file.read().split("\n") if _can_match(line)]
            except OSError:
                continue  # git, too, goes on without a file that it cannot read
        if lines:
            from pathspec import GitIgnoreSpec

            self._specs[folder] = GitIgnoreSpec.from_lines(lines)

    def leaves_out(self, path: str, *, folder: bool) -> bool:
        """Whether ``path`` is ignored; nothing below an ignored folder may be asked for."""
        if not self._specs:
            return False
        above = os.path.dirname(path)
        while True:
            spec = self._specs.get(above)
            if spec is not None:
                relative = path[len(above.rstrip(os.sep)) + 1 :]
                found = spec.check_file(relative + "/" if folder else relative).include
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


def _can_match(line: str) -> bool:
    """Whether a pattern can match a folder or a Python file: ``*.so`` cannot."""
    line = line.strip()
    return bool(line) and not line.startswith("#")
