"""The files of a project: what the cache knows of them, and readers for what it does not."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TypeVar

import msgspec

from lint_rules.cache import Cache
from lint_rules.crew import Crew, worth_a_crew
from lint_rules.facts import FileFacts
from lint_rules.reader import Job, Reader
from lint_rules.rows import Row
from lint_rules.tree import Identity, Listing, identity_of, racy

__all__ = ["Library", "Texts", "TreeChanged"]

_MOST_RECENT = 40
"""So many files beside, and as many out of date in, the large file of facts, and no more."""
_BATCH_BYTES = 60_000
T = TypeVar("T")


class TreeChanged(Exception):
    """A file is not what it was a moment ago: what was read belongs to two different trees."""


class _Rows(msgspec.Struct, array_like=True, gc=False):
    """What is kept of every file, and the names that every one was searched for."""

    names: set[str]
    rows: dict[str, Row]


class _Facts(msgspec.Struct, array_like=True, gc=False):
    """Encoded facts by the key of the job that gave them.

    Most stand in ``facts``; what was found out since that was written, in ``recent``, so that the
    check of one edit does not write all of it again.
    """

    by_key: dict[bytes, bytes]


class Texts(Mapping[str, bytes]):
    """The bytes of files, read when they are asked for."""

    def __init__(self, identities: Mapping[str, Identity | None]) -> None:
        self.identities = identities
        self._read: dict[str, bytes] = {}

    def __getitem__(self, path: str) -> bytes:
        found = self._read.get(path)
        if found is None:
            identity = self.identities[path]
            try:
                with open(path, "rb") as file:
                    if identity_of(os.fstat(file.fileno())) != identity:
                        raise TreeChanged(path)
                    found = self._read[path] = file.read()
            except OSError as error:
                raise TreeChanged(path) from error
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self.identities)

    def __len__(self) -> int:
        return len(self.identities)

    def add(self, texts: Mapping[str, bytes]) -> None:
        """Take bytes that were read elsewhere."""
        self._read.update(texts)


class Library:
    """The files of one listing.

    ``rows`` holds a row for each that can be read, in the order of paths, ``unreadable`` why the
    others cannot, ``texts`` their bytes. A context manager, since it may start processes.

    ``unsaved`` has, by path, what stands in for the bytes on disk. A row of such bytes has no
    identity, so that neither this check nor a later one takes it for that of the file.
    """

    def __init__(
        self,
        listing: Listing,
        cache: Cache | None,
        clock_ns: int,
        unsaved: Mapping[str, bytes] = MappingProxyType({}),
    ) -> None:
        self._cache = cache
        self._clock_ns = clock_ns
        self._reader = Reader()
        self._crew: Crew | None = None
        self._spare: Crew | None = None
        self._held: dict[str, int] = {}
        self._known: dict[bytes, bytes] | None = None
        self._written: dict[bytes, bytes] = {}
        self._recent: dict[bytes, bytes] = {}
        self._kept: dict[bytes, bytes] = {}
        self._rows_changed = False
        self.rows: dict[str, Row] = {}
        self.unreadable: dict[str, str] = {}
        kept = self._load("rows", _Rows) or _Rows(set(), {})
        self._names = kept.names
        self._take(listing, kept.rows, unsaved)
        self.texts = Texts({path: row.identity for path, row in self.rows.items()})
        self.texts.add(self._reader.data)

    def __enter__(self) -> Library:
        return self

    def __exit__(self, *error: object) -> None:
        self.dismiss()

    def dismiss(self) -> None:
        """End the processes that were started; what is asked for later is done in this one."""
        for crew in (self._crew, self._spare):
            if crew is not None:
                crew.close()
        self._crew = self._spare = None

    def _take(
        self, listing: Listing, kept: Mapping[str, Row], unsaved: Mapping[str, bytes]
    ) -> None:
        """Fill in the rows: those that were kept, and of the other files what they say now."""
        stale: dict[str, bytes] = {}
        held: dict[str, bytes] = {}
        for path, identity in listing.files.items():
            row = kept.get(path)
            if path in unsaved:
                held[path] = row.content if row is not None else b""
            elif row is None or row.identity != identity:
                stale[path] = row.content if row is not None else b""
        edited = len(stale) + len(held)
        self._rows_changed = bool(edited) or kept.keys() != listing.files.keys()
        sizes = {path: identity[0] for path, identity in listing.files.items()}
        if edited and not worth_a_crew(sum(sizes[path] for path in stale)):
            if kept and worth_a_crew(sum(sizes.values())):
                # likely to be wanted for what was edited: it loads the parser meanwhile
                self._spare = Crew(edited)
        fresh: dict[str, Row] = {}
        for found in (*self._read(stale, sizes), self._reader.rows(held, unsaved)):
            for path, row in found[0].items():
                fresh[path] = row
            for path, same in found[1].items():
                fresh[path] = kept[path]
                fresh[path].identity = same
            self.unreadable |= found[2]
        for path in listing.files:
            row = fresh.get(path) or kept.get(path)
            if row is not None and path not in self.unreadable:
                self.rows[path] = row
        changed = {path for path, row in fresh.items() if row is not kept.get(path)}
        if self._names and changed:
            self._search(self._names, changed)

    def _read(
        self, known: Mapping[str, bytes], sizes: Mapping[str, int]
    ) -> list[tuple[dict[str, Row], dict[str, Identity | None], dict[str, str]]]:
        """Have files read, by a crew where that pays."""
        if self._crew is None and not worth_a_crew(sum(sizes[path] for path in known)):
            return [self._reader.rows(known)]
        crew = self._started(len(known))
        shares: list[dict[str, bytes]] = [{} for _ in range(len(crew))]
        for index, path in enumerate(sorted(known, key=lambda path: (-sizes[path], path))):
            # back and forth, so that no share has the larger one of each round
            turn, place = divmod(index, len(crew))
            holder = place if turn % 2 == 0 else len(crew) - 1 - place
            shares[holder][path] = known[path]
            self._held[path] = holder
        return crew.each("rows", shares)

    def _started(self, most: int) -> Crew:
        if self._crew is None:
            self._crew, self._spare = self._spare or Crew(most), None
        return self._crew

    def _search(self, names: Collection[str], paths: Collection[str] | None = None) -> None:
        """Note which of ``names`` stand in ``paths``, or in all files."""
        if paths is None:
            self._hold_all()
        self._rows_changed = True
        asked = tuple(names), paths
        found = [self._reader.containing(asked)]
        if self._crew is not None:
            found += self._crew.each("containing", [asked] * len(self._crew))
        for standing in found:
            for name, files in standing.items():
                for path in files:
                    self.rows[path].hits.add(name)

    def _hold_all(self) -> None:
        """Have every file's bytes at hand."""
        missing = {
            path: row.content
            for path, row in self.rows.items()
            if path not in self._held and path not in self._reader.data
        }
        sizes = {p: row.identity[0] for p in missing if (row := self.rows[p]).identity}
        for changed, same, unreadable in self._read(missing, sizes):
            if changed or unreadable or any(self.rows[p].identity != same[p] for p in same):
                raise TreeChanged(*changed, *unreadable)

    def containing(self, names: Collection[str]) -> dict[str, list[str]]:
        """The files in which each of ``names`` stands as a word."""
        unknown = set(names) - self._names
        if unknown:
            self._search(unknown)
            self._names |= unknown
        found: dict[str, list[str]] = {name: [] for name in names}
        for path, row in self.rows.items():
            for name in row.hits:
                if name in found:
                    found[name].append(path)
        return found

    def needles(self, asked: Mapping[str, tuple[str, ...]]) -> set[str]:
        """What the files hold instances of the classes asked for in."""
        todo = {path: names for path, names in asked.items() if self.rows[path].asked != names}
        self._rows_changed |= bool(todo)
        shares: list[dict[str, tuple[str, ...]]] = [{} for _ in range(len(self._crew or ()))]
        mine: dict[str, tuple[str, ...]] = {}
        for path, names in todo.items():
            holder = self._held.get(path)
            if holder is not None:
                shares[holder][path] = names
            else:
                if path not in self._reader.data:
                    self._reader.data[path] = self.texts[path]
                mine[path] = names
        found = [self._reader.needles(mine)]
        if self._crew is not None:
            found += self._crew.each("needles", shares)
        for part in found:
            for path, needles in part.items():
                self.rows[path].asked, self.rows[path].needles = todo[path], needles
        return {needle for path in asked for needle in self.rows[path].needles}

    def facts(self, wanted: Mapping[str, bool], words: Collection[str]) -> list[FileFacts]:
        """The facts of files, in the order of their paths.

        ``wanted`` says of each whether it is read whole, or cut down to what mentions ``words``.
        """
        if self._known is None:
            self._written = self._kept_facts("facts")
            self._recent = self._kept_facts("recent")
            self._known = self._written | self._recent
        known = self._known
        relevant = set(words)
        keys: dict[str, bytes] = {}
        todo: dict[str, Job] = {}
        for path, defining in sorted(wanted.items()):
            row = self.rows[path]
            job = Job(path, b"", None if defining else tuple(sorted(row.hits & relevant)))
            keys[path] = job.key(row.content)
            if keys[path] not in known:
                todo[path] = job
        ready = {path: known[key] for path, key in keys.items() if path not in todo}
        decoder = msgspec.msgpack.Decoder(FileFacts)
        facts: dict[str, FileFacts] = {}

        def decode_known() -> None:
            for path, data in ready.items():
                self._kept[keys[path]] = data
                facts[path] = decoder.decode(data)

        size = sum(len(data) for data in ready.values())
        for path, data in self._extracted(todo, size, decode_known):
            self._kept[keys[path]] = data
            facts[path] = decoder.decode(data)
        return [facts[path] for path in sorted(wanted)]

    def _extracted(
        self, jobs: Mapping[str, Job], known: int, meanwhile: Callable[[], None]
    ) -> Iterator[tuple[str, bytes]]:
        """The encoded facts of ``jobs``; ``meanwhile`` is called once, before the first of them.

        It takes in ``known`` bytes.
        """
        self._collect(jobs)
        ready = [msgspec.structs.replace(job, data=self.texts[p]) for p, job in jobs.items()]
        # where much is known, a process parses what is not while this one takes that in
        size = sum(len(job.data) for job in ready) + known
        if not ready or (self._crew is None and not worth_a_crew(size)):
            meanwhile()
            yield from self._reader.extract(ready)
            return
        # what takes longest first, so that no process is left alone with it
        ready.sort(key=lambda job: (job.words is not None, -len(job.data), job.path))
        for found in self._started(len(ready)).deal("extract", _batches(ready), meanwhile):
            yield from found

    def _collect(self, paths: Collection[str]) -> None:
        """Take the bytes of ``paths`` from those who read them."""
        self.texts.add(self._reader.data)
        if self._crew is not None:
            shares: list[list[str]] = [[] for _ in range(len(self._crew))]
            for path in paths:
                holder = self._held.get(path)
                if holder is not None:
                    shares[holder].append(path)
            for texts in self._crew.each("collect", shares):
                self.texts.add(texts)
            self._held.clear()

    def save(self) -> None:
        """Keep what was found for the next check."""
        if self._cache is None:
            return
        if self._known is not None and self._kept.keys() != self._known.keys():
            self._save_facts(self._cache)
        if self._rows_changed:
            rows = {path: self._lasting(row) for path, row in self.rows.items()}
            self._cache.write("rows", msgspec.msgpack.encode(_Rows(self._names, rows)))

    def _save_facts(self, cache: Cache) -> None:
        recent = {key: data for key, data in self._kept.items() if key not in self._written}
        current = len(self._kept) - len(recent)
        most = _MOST_RECENT if self._written else 0
        if len(recent) > most or len(self._written) > current + _MOST_RECENT:
            cache.write("facts", msgspec.msgpack.encode(_Facts(self._kept)))
            recent = {}
        if recent.keys() != self._recent.keys():
            cache.write("recent", msgspec.msgpack.encode(_Facts(recent)))

    def _kept_facts(self, name: str) -> dict[bytes, bytes]:
        found = self._load(name, _Facts)
        return found.by_key if found is not None else {}

    def _lasting(self, row: Row) -> Row:
        """A row as a later check may believe it."""
        if row.identity is not None and racy(row.identity, self._clock_ns):
            return msgspec.structs.replace(row, identity=None)
        return row

    def _load(self, name: str, kind: type[T]) -> T | None:
        data = self._cache.read(name) if self._cache is not None else None
        return msgspec.msgpack.decode(data, type=kind) if data is not None else None


def _batches(jobs: Iterable[Job]) -> Iterator[list[Job]]:
    batch: list[Job] = []
    size = 0
    for job in jobs:
        batch.append(job)
        size += len(job.data)
        if size > _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
