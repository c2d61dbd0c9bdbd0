"""What repairs make of a tree: shown, told and written."""

from __future__ import annotations

import difflib
import os
import re
import stat
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lint_rules.output import counted, shown
from lint_rules.repairs.source import Source
from lint_rules.run import Report
from mla_guard.diagnostic import Diagnostic

__all__ = ["FileChanged", "Fixed", "Mended", "diff", "said", "write"]


class FileChanged(Exception):
    """A file is no longer what was checked; nothing is written over it."""


@dataclass(frozen=True, slots=True)
class Mended:
    """What repairs do to a tree.

    ``repaired`` are the findings that go away, in the order of their repairs; ``before`` and
    ``after`` hold the files that change, by path.
    """

    repaired: tuple[Diagnostic, ...]
    before: Mapping[str, bytes]
    after: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Fixed(Mended):
    """A tree after its repairs; ``report`` is on what remains."""

    report: Report


def diff(fixed: Fixed, base: Path) -> str:
    """The changes as a unified diff, paths relative to ``base`` where they lie below it."""
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
        for path in sorted(fixed.after)
        for line in difflib.unified_diff(
            _lines(path, fixed.before[path]),
            _lines(path, fixed.after[path]),
            shown(path, base),
            shown(path, base),
        )
    )


def said(fixed: Fixed, verb: str) -> str:
    """How many findings are repaired in how many files, and by which rules, as one line."""
    if not fixed.after:
        return f"{verb} nothing."
    codes = Counter(d.code for d in fixed.repaired)
    by_rule = ", ".join(f"{code} {count}" for code, count in sorted(codes.items()))
    findings, files = counted(len(fixed.repaired), "finding"), counted(len(fixed.after), "file")
    return f"{verb} {findings} in {files} ({by_rule})."


def _lines(path: str, data: bytes) -> list[str]:
    return re.findall(r"[^\n]*\n|[^\n]+", Source(path, data).text)


def write(fixed: Fixed) -> None:
    """Write the changed files, each at once and with its permissions.

    Raises :class:`FileChanged`, before anything is written, where a file is not what was checked,
    and :class:`OSError` where one cannot be written.
    """
    for path, data in fixed.before.items():
        if Path(path).read_bytes() != data:
            raise FileChanged(f"{path} was changed while it was checked: nothing was repaired")
        if not os.access(path, os.W_OK):
            raise PermissionError(f"{path} may not be written: nothing was repaired")
    for path, data in fixed.after.items():
        _replace(Path(os.path.realpath(path)), fixed.before[path], data)


def _replace(path: Path, before: bytes, data: bytes) -> None:
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, stat.S_IMODE(path.stat().st_mode))
        if path.read_bytes() != before:
            raise FileChanged(f"{path} was changed while repairs were written: it was left alone")
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
