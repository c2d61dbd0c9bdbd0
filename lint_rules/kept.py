"""Judgements that found nothing, kept until something that they read has changed.

Rules judge class by class through :meth:`lint_rules.judge.Judge.each`. While a class is judged,
what is read is noted: the classes of whose bodies something is read (``noted``), and the answers to
the questions about the whole project that :mod:`lint_rules.watched` knows to ask again. Whatever
else a judgement reaches for makes it *open*, and an open one is made again each time: what nobody
thought of costs time, never a finding.

A judgement that found nothing stands in a later check where

- the *frame* is equal: which files and classes there are, in which order, what they derive from and
  borrow, what the files import under names that can mean a class of the project, and how files are
  cut down to what matters;
- no file has changed that the classes which it read are made of, their parents' included;
- the questions that it asked have the same answers, found out from the project as it is now.

What found something is judged again, so that places and words are those of the text as it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import msgspec

from lint_rules.cache import Cache, digest
from lint_rules.noted import Reads, noting
from lint_rules.watched import answered, watched

if TYPE_CHECKING:
    from lint_rules.discover import Scan
    from lint_rules.judge import Judge
    from lint_rules.link import Klass, Project

__all__ = ["Kept", "Made", "Record"]

T = TypeVar("T")
_NAME = "judged"
_Question: TypeAlias = tuple[str, int | str]


class Record(msgspec.Struct, array_like=True, gc=False):
    """What a judgement that found nothing has read; classes go by their number in the project."""

    classes: tuple[int, ...]
    asked: tuple[tuple[_Question, bool | int | tuple[str, ...] | None], ...]


Made: TypeAlias = dict[tuple[str, int], tuple[Record, bool]]
"""The judgements that found nothing, by name and class, and whether each stood already."""


class _File(msgspec.Struct, array_like=True, gc=False):
    """``contents`` are digests of the files, ``records`` by the judgement and the class judged."""

    frame: bytes
    contents: dict[str, bytes]
    records: dict[str, dict[int, Record]]


class Kept:
    """What an earlier check left in ``cache``, and what this one will leave there.

    ``contents`` has the digest of each linked file, ``scan`` says how the files were cut down.
    """

    def __init__(
        self, cache: Cache, judge: Judge, contents: Mapping[str, bytes], scan: Scan
    ) -> None:
        self._cache = cache
        self._judge = judge
        self._classes = _classes(judge.project)
        self._numbers = {klass: number for number, klass in enumerate(self._classes)}
        files = {*judge.project.files, *(klass.path for klass in self._classes)}
        self._contents = {path: contents[path] for path in files}
        self._frame = _frame(judge, self._numbers, scan)
        self._made: dict[tuple[str, int], Record] = {}
        self._standing: dict[tuple[str, int], Record] = {}
        self._answers: dict[_Question, object] = {}
        data = cache.read(_NAME)
        self._before = msgspec.msgpack.decode(data, type=_File) if data is not None else None
        if self._before is not None and self._before.frame != self._frame:
            self._before = None

    @cached_property
    def _changed(self) -> frozenset[int]:
        """The classes that are not what they were."""
        before = self._before.contents if self._before is not None else {}
        files = {path for path, content in self._contents.items() if before.get(path) != content}
        return frozenset(n for k, n in self._numbers.items() if not files.isdisjoint(k.sources))

    def judged(self, klass: Klass, judgement: Callable[[Judge, Klass], Iterable[T]]) -> Iterable[T]:
        """What ``judgement`` gives for ``klass``: nothing where it did and still would."""
        name, number = f"{judgement.__module__}.{judgement.__qualname__}", self._numbers[klass]
        before = self._before.records.get(name, {}).get(number) if self._before else None
        if before is not None and self._stands(before):
            self._standing[name, number] = before
            return ()
        reads = Reads()
        with noting(reads):
            found = list(judgement(watched(self._judge, reads), klass))
        if not found and not reads.open:
            self._made[name, number] = self._record(reads)
        return found

    def _stands(self, record: Record) -> bool:
        return self._changed.isdisjoint(record.classes) and all(
            self._answer(question) == answer for question, answer in record.asked
        )

    def _answer(self, question: _Question) -> object:
        if question not in self._answers:
            door, about = question
            subject = self._classes[about] if isinstance(about, int) else about
            self._answers[question] = answered(self._judge, door, subject)
        return self._answers[question]

    def _record(self, reads: Reads) -> Record:
        asked = tuple(
            ((door, self._numbers[about] if not isinstance(about, str) else about), answer)
            for (door, about), answer in reads.asked.items()
        )
        return Record(tuple(sorted(self._numbers[k] for k in reads.classes)), asked)  # type: ignore[arg-type]

    def made(self) -> Made:
        """The judgements of this check since the last call."""
        found = {key: (record, True) for key, record in self._standing.items()}
        found |= {key: (record, False) for key, record in self._made.items()}
        self._standing, self._made = {}, {}
        return found

    def save(self, made: Made) -> None:
        """Keep what the judgements have ``made``."""
        records: dict[str, dict[int, Record]] = {}
        if self._before is not None and self._before.contents == self._contents:
            if all(stood for _, stood in made.values()):
                return
            records = self._before.records  # those of rules that were not asked for stand, too
        for (name, number), (record, _) in made.items():
            records.setdefault(name, {})[number] = record
        file = _File(self._frame, self._contents, records)
        self._cache.write(_NAME, msgspec.msgpack.encode(file))


def _classes(project: Project) -> list[Klass]:
    """The classes of a project, and those that are only described, with what they derive from."""
    found = dict.fromkeys(project.classes)
    left = list(project.described)
    while left:
        klass = left.pop()
        if klass not in found:
            found[klass] = None
            lenders = (member.owner for member in klass.borrowed.values())
            left += [*klass.mro, *klass.bases, *klass.alternatives, *klass.children, *lenders]
    return list(found)


def _frame(judge: Judge, numbers: Mapping[Klass, int], scan: Scan) -> bytes:
    """What every judgement is taken to depend on, as a digest."""
    project = judge.project

    def of(classes: Iterable[Klass]) -> tuple[int, ...]:
        return tuple(numbers[k] for k in classes)

    classes = [
        (
            klass.path,
            klass.qualname,
            of(klass.bases),
            of(klass.alternatives),
            klass.unresolved,
            of(klass.children),
            of(klass.mro),
            numbers[klass.root] if klass.root is not None else None,
            [(name, numbers[m.owner], m.name) for name, m in klass.borrowed.items()],
        )
        for klass in numbers
    ]
    families = (
        of(project.roots), of(judge.view.roots), of(judge.classes), of(judge.view.backends),
        [of(pair) for pair in project.stand_ins],
        [(numbers[klass], sorted(names)) for klass, names in project.described.items()],
    )  # fmt: skip
    cut = (sorted(scan.family), sorted(scan.needles), sorted(scan.defining))
    parts = (classes, families, list(_imported(judge)), cut)
    return digest(msgspec.msgpack.encode(parts))


def _imported(judge: Judge) -> Iterator[tuple[object, ...]]:
    """Of every file what decides on which class a name means in it."""
    project = judge.project
    names = project.class_names | project.folders
    for path, facts in project.files.items():
        imports = [
            entry
            for entry in facts.imports
            if entry.name in names
            or (not entry.name and not names.isdisjoint(entry.module.split(".")))
        ]
        yield path, imports, facts.stars, facts.aliases
