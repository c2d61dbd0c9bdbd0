"""The baseline: the findings that a project had when it took the linter up, one a line.

``path: CODE symbol``, the path relative to the file's own directory, and ``# reason`` if wanted. A
line holds back one finding of that code on that symbol, wherever in the file it stands. A baseline
only shrinks: what it does not hold is reported, a line that holds nothing is reported too, and
writing it again takes lines away.
"""

from __future__ import annotations

import os
import re
import shutil
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from lint_rules.config import ConfigError
from mla_guard.diagnostic import LINT_RULES, Diagnostic, Place

__all__ = ["Baseline", "Held", "Key", "hold", "new_text", "read_baseline", "write_text"]

STALE = "MLA003"
_ABOUT_EXCEPTIONS = ("MLA001", "MLA002", STALE)
"""Findings about exceptions, from which there is no exception."""

_ENTRY = re.compile(r"(?P<path>\S.*?): (?P<code>MLA\d{3}) (?P<symbol>[^\s#]+)\s*(?:#.*)?")
_HEADER = """\
# Findings that mla-guard holds back. Lines may be taken away, none is added:
# `mla-guard check --write-baseline` takes away those that hold nothing any more.
"""


class Key(NamedTuple):
    """What a line of a baseline says of a finding."""

    path: str
    code: str
    symbol: str

    def __str__(self) -> str:
        return f"{self.path}: {self.code} {self.symbol}"


@dataclass(frozen=True, slots=True)
class Baseline:
    """A baseline as it was read: lines with their ends, and what each entry, by number, holds."""

    path: Path
    lines: tuple[str, ...]
    entries: dict[int, Key]

    def without(self, numbers: Collection[int]) -> str:
        """The text less these lines; the others keep their order, reasons and comments."""
        kept = (line for n, line in enumerate(self.lines, 1) if n not in numbers)
        return "".join(kept)


class Held(NamedTuple):
    """What a baseline leaves to report, what it holds back, and its lines that hold nothing."""

    reported: list[Diagnostic]
    kept: list[Diagnostic]
    stale: list[int]


def read_baseline(path: Path) -> Baseline:
    """The baseline in ``path``. Raises :class:`ConfigError` for a line that is none."""
    try:
        text = path.read_bytes().decode(errors="surrogateescape")
    except OSError as error:
        raise ConfigError(
            f"{path}: the baseline cannot be read: {error.strerror}; --write-baseline writes one"
        ) from error
    lines = tuple(re.findall(r"[^\n]*\n|[^\n]+", text))
    entries = {}
    for number, line in enumerate(lines, 1):
        written = line.strip()
        if written and not written.startswith("#"):
            entries[number] = _entry(written, f"{path}:{number}")
    return Baseline(path, lines, entries)


def _entry(line: str, where: str) -> Key:
    match = _ENTRY.fullmatch(line)
    if match is None:
        raise ConfigError(
            f"{where}: {line!r} is not a line of a baseline, as in "
            "'engine/backend.py: MLA101 Backend.hook  # reason'"
        )
    key = Key(match["path"], match["code"], match["symbol"])
    if key.code not in LINT_RULES or key.code in _ABOUT_EXCEPTIONS:
        raise ConfigError(f"{where}: {key.code} is no rule whose findings a baseline can hold")
    return key


def hold(
    findings: Sequence[Diagnostic], baseline: Baseline, judged: Callable[[Path, str], bool]
) -> Held:
    """What is left of ``findings`` under ``baseline``, with a finding for each stale line.

    Of findings alike in path, code and symbol as many are held as lines say; where there are more
    of them than lines, which ones are new cannot be told, and all are reported. ``judged`` says
    whether findings of a code in a file would be among ``findings`` at all, so that a line that
    holds none is stale.
    """
    found: defaultdict[Key, list[Diagnostic]] = defaultdict(list)
    reported: list[Diagnostic] = []
    kept: list[Diagnostic] = []
    for finding in findings:
        if finding.code in _ABOUT_EXCEPTIONS:
            reported.append(finding)
        else:
            found[_key(finding, baseline.path)].append(finding)
    lines: defaultdict[Key, list[int]] = defaultdict(list)
    for number, key in baseline.entries.items():
        lines[key].append(number)
    for key, alike in found.items():
        if len(alike) > len(lines[key]):
            reported += _exceeding(alike, len(lines[key]))
        else:
            kept += alike
    stale = [
        number
        for key, numbers in lines.items()
        if judged(baseline.path.parent / key.path, key.code)
        for number in numbers[len(found[key]) :]
    ]
    reported += (_stale(baseline, number) for number in sorted(stale))
    reported.sort(key=lambda f: (f.place, f.code, f.message))
    return Held(reported, kept, sorted(stale))


def _key(finding: Diagnostic, baseline: Path) -> Key:
    relative = Path(os.path.relpath(finding.place.path, baseline.parent)).as_posix()
    return Key(relative, finding.code, finding.symbol)


def _exceeding(alike: Iterable[Diagnostic], lines: int) -> Iterable[Diagnostic]:
    if not lines:
        return alike
    reason = f"the baseline holds {lines} alike: which are new cannot be told"
    return (replace(finding, reasons=(*finding.reasons, reason)) for finding in alike)


def _stale(baseline: Baseline, number: int) -> Diagnostic:
    key = baseline.entries[number]
    message = f"nothing to hold back here: {key.code} is not reported on {key.symbol} in {key.path}"
    hint = "Take the line away, or let --write-baseline do it."
    return Diagnostic(STALE, "warning", message, Place(str(baseline.path), number), "", hint=hint)


def new_text(findings: Iterable[Diagnostic], path: Path) -> tuple[str, int]:
    """A baseline in ``path`` that holds ``findings``, sorted, and how many that are."""
    keys = sorted(_key(f, path) for f in findings if f.code not in _ABOUT_EXCEPTIONS)
    for key in keys:
        if _ENTRY.fullmatch(str(key)) is None or "\n" in key.path:
            raise ConfigError(f"{path}: {str(key)!r} cannot stand in a baseline")
    return _HEADER + "".join(f"{key}\n" for key in keys), len(keys)


def write_text(path: Path, text: str) -> None:
    """Put ``text`` in the place of ``path``, whole or not at all."""
    target = Path(os.path.realpath(path))
    scratch = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        scratch.write_bytes(text.encode(errors="surrogateescape"))
        with suppress(FileNotFoundError):
            shutil.copymode(target, scratch)
        scratch.replace(target)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}") from error
    finally:
        with suppress(OSError):
            scratch.unlink()
