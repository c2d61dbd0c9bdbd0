"""What the server and its worker say to each other, and how that travels through a pipe."""

from __future__ import annotations

import pickle
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import IO, TypeAlias

from lint_rules.run import FileFailure
from mla_guard.diagnostic import Diagnostic

__all__ = [
    "Answer",
    "AskRepairs",
    "CheckTree",
    "Checked",
    "DescribeHook",
    "Described",
    "MakeRepairs",
    "Repairable",
    "Repaired",
    "Request",
    "receive",
    "send",
]

_LENGTH = struct.Struct(">Q")


@dataclass(frozen=True, slots=True)
class CheckTree:
    """Check ``folders``; ``unsaved`` has the contents of files that are not on disk, by path."""

    folders: tuple[str, ...]
    unsaved: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check of the folders gave.

    ``problems`` say why a folder could not be checked, ``notes`` that one has nothing to check.
    """

    findings: tuple[Diagnostic, ...] = ()
    failures: tuple[FileFailure, ...] = ()
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribeHook:
    """The hook whose name stands at 1-based ``line`` and ``column`` of a file, as last checked."""

    path: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Described:
    """The Markdown about a hook, empty where none is named, and the columns of the name."""

    markdown: str = ""
    start: int = 0
    end: int = 0


@dataclass(frozen=True, slots=True)
class AskRepairs:
    """Which of ``findings`` have a repair, if ``unsaved`` is what was checked."""

    findings: tuple[Diagnostic, ...]
    unsaved: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Repairable:
    """The findings that have a repair."""

    findings: frozenset[Diagnostic] = frozenset()


@dataclass(frozen=True, slots=True)
class MakeRepairs:
    """Repair ``findings``, if ``unsaved`` is what was checked."""

    findings: tuple[Diagnostic, ...]
    unsaved: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Repaired:
    """The texts of the files that repairs change, by path; none where no repair holds."""

    before: Mapping[str, str] = field(default_factory=dict)
    after: Mapping[str, str] = field(default_factory=dict)


Request: TypeAlias = CheckTree | DescribeHook | AskRepairs | MakeRepairs
Answer: TypeAlias = Checked | Described | Repairable | Repaired


def send(pipe: IO[bytes], message: Request | Answer) -> None:
    """Write one message; the other end is this package's, so that pickle may be trusted."""
    data = pickle.dumps(message)
    pipe.write(_LENGTH.pack(len(data)) + data)
    pipe.flush()


def receive(pipe: IO[bytes]) -> object:
    """Read one message. Raises :class:`EOFError` where the other end is gone."""
    header = pipe.read(_LENGTH.size)
    if len(header) < _LENGTH.size:
        raise EOFError
    (length,) = _LENGTH.unpack(header)
    data = pipe.read(length)
    if len(data) < length:
        raise EOFError
    return pickle.loads(data)
