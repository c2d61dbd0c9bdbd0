"""Which files differ from a revision, as git tells it."""

from __future__ import annotations

import subprocess
from pathlib import Path

__all__ = ["GitError", "changed_since"]


class GitError(RuntimeError):
    """Git is not there, or cannot answer; the message says what it was asked."""


def changed_since(revision: str, folder: Path) -> tuple[Path, ...]:
    """The Python files of the working tree that differ from ``revision``, untracked ones included.

    Those are all files of the repository around ``folder``. What was deleted or moved away is not
    among them. Raises :class:`GitError`.
    """
    top = Path(_git(folder, "rev-parse", "--show-toplevel").decode().rstrip("\n"))
    try:
        commit = _git(top, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    except GitError as error:
        raise GitError(f"--changed-since: {revision!r} is no revision of {top}") from error
    differing = _git(top, "diff", "--name-only", "-z", "--diff-filter=d", commit.decode().strip())
    untracked = _git(top, "ls-files", "--others", "--exclude-standard", "-z")
    names = {name for name in (differing + untracked).split(b"\0") if name.endswith(b".py")}
    return tuple(top / name.decode("utf-8", "surrogateescape") for name in sorted(names))


def _git(folder: Path, *arguments: str) -> bytes:
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True)
    except OSError as error:
        raise GitError(f"--changed-since: git cannot be run: {error.strerror}") from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise GitError(f"--changed-since: git cannot tell: {said or arguments[0]}")
    return done.stdout
