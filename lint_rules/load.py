"""From paths to a linked project: scan, extract (in parallel), link."""

from __future__ import annotations

import gc
import multiprocessing
import os
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import msgspec

from lint_rules.described import described as described_by
from lint_rules.described import may_be_uneven
from lint_rules.discover import Scan, scan, shortest
from lint_rules.facts import FileFacts
from lint_rules.link import Klass, Project

__all__ = ["Loaded", "load"]

_PARALLEL_FROM = 400_000
"""Bytes of source from which a second process pays for its start."""


@dataclass(frozen=True)
class Loaded:
    """A linked project, the sources that it was read from, and the files that could not be."""

    project: Project
    scan: Scan
    failures: tuple[tuple[str, int, str], ...]


class _Reader:
    """Extracts one file; sent to the worker processes once, with what the scan found."""

    def __init__(self, family: frozenset[str], needles: frozenset[str]) -> None:
        words = family | needles
        self._words = re.compile(r"\b(?:" + "|".join(map(re.escape, sorted(words))) + r")\b")
        # a substring test costs a fraction of the alternation, and mostly answers no
        self._parts = [n.decode() for n in shortest(words)]

    def _mentions(self, text: str) -> bool:
        return any(part in text for part in self._parts) and self._words.search(text) is not None

    def read(self, path: str, data: bytes, defining: bool) -> FileFacts:
        from lint_rules.extract import extract

        try:
            source = data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
        except UnicodeDecodeError as error:
            return FileFacts(path, error=f"is not UTF-8: {error.reason}", error_line=1)
        try:
            if defining:
                return extract(path, source)
            return extract(path, source, self._mentions, lambda _: False)
        except RecursionError:
            return FileFacts(path, error="is nested too deeply to be read", error_line=1)


_reader: _Reader | None = None


def _start(reader: _Reader) -> None:
    global _reader
    _reader = reader
    # a syntax tree holds no cycles; collecting while one is built costs a tenth of the parse
    gc.disable()


def _work(jobs: list[tuple[str, bytes, bool]]) -> bytes:
    assert _reader is not None
    return msgspec.msgpack.encode([_reader.read(*job) for job in jobs])


def load(
    paths: Sequence[str],
    roots: Sequence[str],
    companions: Sequence[str] = (),
    pairs: Sequence[tuple[str, str]] = (),
    *,
    progress: Callable[[str], None] | None = None,
) -> Loaded:
    """Scan ``paths`` and link what matters of them.

    ``roots`` name the base classes whose callers count too, ``companions`` those of which only the
    hierarchy does, ``pairs`` classes that stand in for each other.
    """
    if progress is not None:
        progress(f"scanning {len(paths)} files")
    found = scan(paths, roots, companions, pairs)
    jobs = [
        (path, found.sources[path], path in found.defining)
        for path in sorted(found.defining | found.using)
    ]
    if progress is not None:
        progress(f"parsing {len(jobs)} of {len(paths)} files")
    reader = _Reader(frozenset(found.family), found.needles)
    facts = _extract_all(jobs, reader)
    failures = [(f.path, f.error_line, f.error) for f in facts if f.error]
    failures += [(path, 1, f"cannot be read: {why}") for path, why in found.unreadable.items()]
    project = Project(facts, (*roots, *companions), found.stand_ins)
    project.described = _described(facts, found, project, reader)
    return Loaded(project, found, tuple(sorted(failures)))


def _described(
    facts: Sequence[FileFacts], found: Scan, project: Project, reader: _Reader
) -> dict[Klass, frozenset[str]]:
    """The classes that backends read of whose files tell kinds of them apart, read for that."""
    classes: dict[str, list[Klass]] = {}
    described: dict[Klass, frozenset[str]] = {}
    for (path, name), holders in sorted(described_by(facts, found.family, found.declared).items()):
        if path not in classes:
            classes[path] = []
            if path in found.defining:
                classes[path] = [k for k in project.classes if k.path == path]
            elif may_be_uneven(found.sources[path]):
                whole = reader.read(path, found.sources[path], True)
                classes[path] = Project([whole], ()).classes
        described.update((k, frozenset(holders)) for k in classes[path] if k.qualname == name)
    return described


def _extract_all(jobs: list[tuple[str, bytes, bool]], reader: _Reader) -> list[FileFacts]:
    workers = min(os.cpu_count() or 1, 8)
    if workers < 2 or sum(len(data) for _, data, _ in jobs) < _PARALLEL_FROM:
        return [reader.read(*job) for job in jobs]
    import lint_rules.extract  # noqa: F401 - imported before the fork, once for all workers

    jobs = sorted(jobs, key=lambda job: (not job[2], -len(job[1])))
    batches = [jobs[i::64] for i in range(64) if jobs[i::64]]
    context = multiprocessing.get_context(
        "fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn"
    )
    facts: list[FileFacts] = []
    with ProcessPoolExecutor(workers, context, _start, (reader,)) as pool:
        for packed in pool.map(_work, batches):
            facts += msgspec.msgpack.decode(packed, type=list[FileFacts])
    return sorted(facts, key=lambda f: f.path)
