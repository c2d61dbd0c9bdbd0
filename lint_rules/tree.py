"""Which files a check reads: one walk that takes names and identities together."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lint_rules.config import Config
from lint_rules.gitignore import Ignored
from lint_rules.target import inside

__all__ = ["GRANULARITY_NS", "Identity", "Listing", "identity_of", "list_files", "racy"]

Identity = tuple[int, int, int, int]
"""Size in bytes, times of modification and of change in ns, inode: unequal after any edit."""

GRANULARITY_NS = 2_000_000_000
"""The coarsest time stamps in use (FAT): an edit within them can leave an identity as it was."""

_SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages", "build", "dist"})
_TESTS = frozenset({"test", "tests", "testing"})


@dataclass(slots=True)
class Listing:
    """The files to read, in the order of their paths, and what is in the way of reading others.

    ``failures`` hold path, line and message.
    """

    files: dict[str, Identity] = field(default_factory=dict)
    failures: list[tuple[str, int, str]] = field(default_factory=list)


def identity_of(found: os.stat_result) -> Identity:
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


def racy(identity: Identity, clock_ns: int) -> bool:
    """Whether an edit after ``clock_ns``, the time of reading, may have left ``identity`` as it is.

    That is git's rule for its index: an equal identity proves nothing where the file was modified
    within the granularity of time stamps before it was read.
    """
    return max(identity[1], identity[2]) >= clock_ns - GRANULARITY_NS


def list_files(targets: Sequence[Path], config: Config) -> Listing:
    """What a check of ``targets`` reads.

    Those are the Python files below ``config.src``, or below the targets where that is empty.
    Hidden files, environments, what ``exclude`` or a ``.gitignore`` leaves out, and tests that no
    target names are left aside. What a target names is read all the same.
    """
    listing = Listing()
    for top in config.src or targets:
        tests = [t for t in targets if inside(t, top) and _looks_like_test(t, top)]
        _Walk(listing, config, str(top), tuple(map(str, tests))).run()
    for target in targets:
        name = str(target)
        if name not in listing.files and not any(
            path.startswith(name + os.sep) for path in listing.files
        ):
            _Walk(listing, None, name, (name,)).run()
    listing.files = dict(sorted(listing.files.items()))
    return listing


def _looks_like_test(path: Path, top: Path) -> bool:
    relative = path.relative_to(top)
    return _is_test_name(relative.name) or not _TESTS.isdisjoint(relative.parts)


def _is_test_name(name: str) -> bool:
    return name.startswith(("test_", "conftest."))


class _Walk:
    """One walk below ``top``; without ``config`` nothing is left out that is no environment.

    ``tests`` are the targets inside of which tests are read.
    """

    def __init__(
        self, listing: Listing, config: Config | None, top: str, tests: tuple[str, ...]
    ) -> None:
        self._files = listing.files
        self._failures = listing.failures
        self._top = top
        self._tests = tests
        self._ignored = Ignored(top) if config is not None else None
        self._excludes = config.excludes if config is not None and config.exclude else None

    def run(self) -> None:
        if os.path.isdir(self._top):
            stack = [(self._top, False)]
            while stack:
                folder, in_tests = stack.pop()
                stack += self._list(folder, in_tests)
        else:
            self._add(self._top, lambda: os.stat(self._top))

    def _add(self, path: str, find: Callable[[], os.stat_result]) -> None:
        try:
            found = find()
        except OSError as error:
            self._failures.append((path, 1, f"cannot be read: {error.strerror or error}"))
            return
        if stat.S_ISREG(found.st_mode):
            self._files[path] = identity_of(found)
        else:
            self._failures.append((path, 1, "cannot be read: is no regular file"))

    def _list(self, folder: str, in_tests: bool) -> list[tuple[str, bool]]:
        """Add the files of a folder; its folders, and whether they lie in one for tests."""
        try:
            with os.scandir(folder) as scanned:
                entries = list(scanned)
        except OSError as error:
            self._failures.append((folder, 1, f"cannot be listed: {error.strerror}"))
            return []
        names = {entry.name for entry in entries}
        if "pyvenv.cfg" in names and folder != self._top:
            return []
        ignored = self._ignored
        if ignored is not None and ".gitignore" in names:
            ignored.enter(folder)
        folders: list[tuple[str, bool]] = []
        excludes = self._excludes
        for entry in entries:
            name = entry.name
            if name.startswith("."):
                continue
            if name.endswith(".py") and not entry.is_dir(follow_symlinks=False):
                path = entry.path
                if (in_tests or _is_test_name(name)) and not self._named(path):
                    continue
                if excludes is not None and excludes(path):
                    continue
                if ignored is None or not ignored.leaves_out(path, folder=False):
                    self._add(path, entry.stat)
            elif name not in _SKIPPED and entry.is_dir(follow_symlinks=False):
                path = entry.path
                if excludes is not None and excludes(path + "/"):
                    continue
                if ignored is None or not ignored.leaves_out(path, folder=True):
                    folders.append((path, in_tests or name in _TESTS))
        return folders

    def _named(self, path: str) -> bool:
        return any(path == t or path.startswith(t + os.sep) for t in self._tests)
