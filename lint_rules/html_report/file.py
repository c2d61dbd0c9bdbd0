"""The file that a report becomes: refused before the work, and replaced whole after it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from lint_rules.html_report.trees import ReportError

__all__ = ["replace", "writable"]


def writable(name: str) -> Path:
    """The path that ``name`` stands for, links followed.

    Raises :class:`ReportError` where no file can be made there.
    """
    target = Path(os.path.realpath(name))
    try:
        if target.exists() and not target.is_file():
            raise ReportError(f"{str(target)!r} is not a regular file: nothing was written")
        with tempfile.TemporaryFile(dir=target.parent):
            return target
    except OSError as error:
        raise _refused(target, error) from error


def replace(target: Path, page: str) -> None:
    """Write ``page``, which is ASCII, to ``target``; after an error that is what it was.

    Raises :class:`ReportError`.
    """
    try:
        handle, scratch = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}-")
        try:
            with os.fdopen(handle, "w", encoding="ascii", newline="\n") as stream:
                stream.write(page)
            os.chmod(scratch, _mode(target))
            os.replace(scratch, target)
        except BaseException:
            os.unlink(scratch)
            raise
    except OSError as error:
        raise _refused(target, error) from error


def _refused(target: Path, error: OSError) -> ReportError:
    return ReportError(f"{str(target)!r} cannot be written: {error.strerror}")


def _mode(target: Path) -> int:
    """The permissions of the file that is replaced, or those that a new file gets."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
