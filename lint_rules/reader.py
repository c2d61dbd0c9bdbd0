"""Reads files, each once, and answers for their bytes: in this process, or in one of several."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType

import msgspec

from lint_rules.cache import digest
from lint_rules.facts import FileFacts
from lint_rules.rows import Row, containing, needles, row_of, shortest
from lint_rules.suppression import MARKER
from lint_rules.tree import Identity, identity_of

__all__ = ["Job", "Reader"]


class Job(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A file to extract: what mentions one of ``words``, or the whole of it where that is None."""

    path: str
    data: bytes
    words: tuple[str, ...] | None

    def key(self, content: bytes) -> bytes:
        """Names what the facts are made of, for a file whose bytes have the digest ``content``."""
        words = (b"whole",) if self.words is None else (b"words", *map(str.encode, self.words))
        return digest(os.fsencode(self.path), content, *words)


class Reader:
    """Files by path."""

    def __init__(self) -> None:
        self.data: dict[str, bytes] = {}

    def rows(
        self, known: Mapping[str, bytes], unsaved: Mapping[str, bytes] = MappingProxyType({})
    ) -> tuple[dict[str, Row], dict[str, Identity | None], dict[str, str]]:
        """Read the files that ``known`` maps to the digest of their bytes as it was, or to nothing.

        The rows of those that changed, the identities of those that did not, and why others cannot
        be read. What ``unsaved`` has bytes of is not read, and has no identity.
        """
        rows: dict[str, Row] = {}
        same: dict[str, Identity | None] = {}
        unreadable: dict[str, str] = {}
        for path, before in known.items():
            identity: Identity | None = None
            try:
                if (data := unsaved.get(path)) is None:
                    with open(path, "rb") as file:
                        identity = identity_of(os.fstat(file.fileno()))
                        data = file.read()
            except OSError as error:
                unreadable[path] = error.strerror or str(error)
                continue
            self.data[path] = data
            content = digest(data)
            if content == before:
                same[path] = identity
            else:
                rows[path] = row_of(data, identity, content, MARKER)
        return rows, same, unreadable

    def containing(
        self, asked: tuple[Collection[str], Collection[str] | None]
    ) -> dict[str, list[str]]:
        """The files in which each name stands, of all that were read here, or of some paths."""
        names, paths = asked
        if paths is None:
            return containing(names, self.data)
        return containing(names, {path: self.data[path] for path in paths if path in self.data})

    def needles(self, asked: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        """What each file holds instances of the classes asked for in."""
        return {path: needles(self.data[path], names) for path, names in asked.items()}

    def collect(self, paths: Iterable[str]) -> dict[str, bytes]:
        """The bytes of ``paths``; those of the other files are forgotten."""
        self.data = {path: self.data[path] for path in paths}
        return self.data

    def extract(self, jobs: Iterable[Job]) -> list[tuple[str, bytes]]:
        """The encoded facts of each job's file, by path."""
        return [(job.path, msgspec.msgpack.encode(_facts(job))) for job in jobs]


def _facts(job: Job) -> FileFacts:
    from lint_rules.extract import extract

    try:
        source = job.data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        return FileFacts(job.path, error=f"is not UTF-8: {error.reason}", error_line=1)
    try:
        if job.words is None:
            return extract(job.path, source)
        return extract(job.path, source, _mentioning(job.words), lambda _: False)
    except RecursionError:
        return FileFacts(job.path, error="is nested too deeply to be read", error_line=1)


@lru_cache(maxsize=512)
def _mentioning(words: tuple[str, ...]) -> Callable[[str], bool]:
    """Whether a text mentions one of ``words``."""
    # a substring test costs a fraction of the alternation, and mostly answers no
    parts = [word.decode() for word in shortest(words)]
    pattern = re.compile(r"\b(?:" + "|".join(map(re.escape, words)) + r")\b")
    return lambda text: any(part in text for part in parts) and pattern.search(text) is not None
