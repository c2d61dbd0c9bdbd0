"""Judgements that found nothing are kept with all that they read, and with nothing else."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random

import pytest

import lint_rules.demo
from lint_rules.cache import Cache, Memory
from lint_rules.config import Config, load_config
from lint_rules.finished import Asked
from lint_rules.judge import Judge
from lint_rules.kept import Kept, Made
from lint_rules.library import Library
from lint_rules.link import Klass
from lint_rules.rules import RULES
from lint_rules.run import read_project
from tests.lint.edits import FILES, Tree

DEMO = Path(lint_rules.demo.__file__).parent / "engine"


def judge_of(root: Path, cache: Cache) -> Judge:
    """A judge of ``root`` that keeps what it finds out in ``cache``."""
    question = Asked([root], load_config([root]) if root != DEMO else Config())
    with Library(question.listing, None, question.clock_ns) as library:
        loaded, judge = read_project(library, question.config)
        contents = {path: row.content for path, row in library.rows.items()}
        _ = dict(library.texts)
    judge.kept = Kept(cache, judge, contents, loaded.scan)
    return judge


def made(judge: Judge, found: Iterable[object]) -> Made:
    list(found)
    assert judge.kept is not None
    return judge.kept.made()


def all_made(judge: Judge, codes: Iterable[str]) -> Made:
    return {
        key: record for code in codes for key, record in made(judge, RULES[code](judge)).items()
    }


def read(judge: Judge, made: Made, key: tuple[str, int]) -> object:
    """The files of which a judgement saw something, and what it asked; None if it is not kept."""
    if key not in made:
        return None
    record, _ = made[key]
    files = {path for number in record.classes for path in judge.project.classes[number].sources}
    return sorted(files), sorted(record.asked, key=repr)


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    Tree(tmp_path, Random(0))
    return tmp_path


@pytest.mark.parametrize("seed", [1, 2])
def test_what_is_noted_does_not_depend_on_what_was_judged_before(seed: int) -> None:
    # what two judgements share is found out by the first of them: the second has read it, too
    random = Random(seed)
    together = judge_of(DEMO, Memory())
    shared = all_made(together, random.sample(sorted(RULES), len(RULES)))
    assert len(shared) == 87
    for name, number in random.sample(sorted(shared), 40):
        alone = judge_of(DEMO, Memory())
        module, _, function = name.rpartition(".")
        judgement = getattr(importlib.import_module(module), function)
        by_itself = made(alone, alone.each([alone.project.classes[number]], judgement))
        expected = read(alone, by_itself, (name, number))
        assert expected is not None
        assert read(together, shared, (name, number)) == expected, name


def test_judgements_stand_until_something_that_they_read_changes(tmp_path: Path) -> None:
    Tree(tmp_path, Random(0))
    cache = Memory()

    def judged() -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
        """Which judgements of which classes stood, and which were made."""
        judge = judge_of(tmp_path, cache)
        assert judge.kept is not None
        found = all_made(judge, ["MLA202", "MLA207"])
        judge.kept.save(found)
        of: dict[bool, set[tuple[str, str]]] = {True: set(), False: set()}
        for (name, number), (_, stood) in found.items():
            rule = name.split(".")[-2]
            of[stood].add((rule, judge.project.classes[number].name))
        return of[True], of[False]

    stood, new = judged()
    assert (stood, len(new)) == (set(), 8)
    assert judged() == (new, set())
    hybrid = tmp_path / "engine" / "hybrid.py"
    hybrid.write_text(FILES["engine/hybrid.py"] + "        # the end\n")
    stood, again = judged()
    assert again == {("unguarded_attribute", "Hybrid"), ("never_stored_attribute", "Hybrid")}
    assert stood == new - again
    # a question to the whole project is answered otherwise: one more method is a hook
    factory = tmp_path / "engine" / "factory.py"
    called = "    backend = Fast(runner)\n    backend.pages(runner)\n"
    factory.write_text(FILES["engine/factory.py"].replace("    if", called + "    if"))
    stood, again = judged()
    assert again == {("unguarded_attribute", "Fast")}
    assert stood == new - again
    # another base class
    base = tmp_path / "engine" / "base.py"
    base.write_text("class Above:\n    pass\n\n\n" + FILES["engine/base.py"])
    assert judged()[0] == set()


def test_a_class_that_backends_read_of_may_have_parents_that_nobody_else_reads(
    tmp_path: Path,
) -> None:
    Tree(tmp_path, Random(0))
    config = tmp_path / "engine" / "config.py"
    text = FILES["engine/config.py"].replace("class Config:", "class Config(Settings):")
    config.write_text("class Settings:\n    pass\n\n\n" + text)
    cache = Memory()
    judge = judge_of(tmp_path, cache)
    assert [k.name for k in judge.described] == ["Config"]
    [told] = [d.code for d in RULES["MLA206"](judge)]
    # a parent that stores what the last branch leaves out
    config.write_text("class Settings:\n    scale = 2.0\n\n\n" + text)
    assert told == "MLA206"
    judge = judge_of(tmp_path, cache)
    assert judge.kept is not None
    assert list(RULES["MLA206"](judge)) == []
    judge.kept.save(judge.kept.made())
    config.write_text("class Settings:\n    pass\n\n\n" + text)
    assert [d.code for d in RULES["MLA206"](judge_of(tmp_path, cache))] == ["MLA206"]


def reads_the_gaps(judge: Judge, klass: Klass) -> Iterator[str]:
    yield from (gap.name for gap in judge.gaps if not gap.name)


def reads_a_view(judge: Judge, klass: Klass) -> Iterator[str]:
    yield from (name for name in judge.view.uses if not name)


def reads_the_project(judge: Judge, klass: Klass) -> Iterator[str]:
    yield from (path for path in judge.project.files if not path)


def reads_a_text(judge: Judge, klass: Klass) -> Iterator[str]:
    yield from (path for path in judge.sources if not path)


def reads_types(judge: Judge, klass: Klass) -> Iterator[str]:
    for method in klass.facts.methods:
        scope = judge.view.types.scope(klass, method)
        if scope.returns() is not None and not method.name:
            yield method.name


def reads_the_body(judge: Judge, klass: Klass) -> Iterator[str]:
    yield from (name for name in klass.members if not name)


def reads_the_flow(judge: Judge, klass: Klass) -> Iterator[str]:
    yield from (name for name in judge.flow(klass).creations if not name)


def reads_of_another(judge: Judge, klass: Klass) -> Iterator[str]:
    yield from (name for k in judge.classes for name in k.own if not name)


@pytest.mark.parametrize(
    ("judgement", "names"),
    [
        (reads_the_gaps, None),
        (reads_a_view, None),
        (reads_the_project, None),
        (reads_a_text, None),
        (reads_types, None),
        (reads_the_body, {"Fast"}),
        (reads_of_another, {"Paged", "Fast", "Hybrid", "Slow"}),
    ],
)
def test_what_cannot_be_compared_later_is_not_kept(
    engine: Path, judgement: object, names: set[str] | None
) -> None:
    judge = judge_of(engine, Memory())
    [fast] = [k for k in judge.classes if k.name == "Fast"]
    found = made(judge, judge.each([fast], judgement))  # type: ignore[arg-type]
    seen = [{judge.project.classes[n].name for n in r.classes} for r, _ in found.values()]
    assert seen == ([] if names is None else [names])


@pytest.mark.parametrize("judgement", [reads_the_body, reads_the_flow])
@pytest.mark.parametrize(("edited", "stands"), [("pages", False), ("fast", False), ("slow", True)])
def test_what_was_found_out_before_is_read_all_the_same(
    engine: Path, judgement: object, edited: str, stands: bool
) -> None:
    cache = Memory()

    def judged() -> list[bool]:
        judge = judge_of(engine, cache)
        assert judge.kept is not None
        [fast] = [k for k in judge.classes if k.name == "Fast"]
        assert fast.members
        assert judge.flow(fast).creations
        found = made(judge, judge.each([fast], judgement))  # type: ignore[arg-type]
        judge.kept.save(found)
        return [stood for _, stood in found.values()]

    assert judged() == [False]
    path = engine / "engine" / f"{edited}.py"
    path.write_text(path.read_text() + "\n# the end\n")
    assert judged() == [stands]


def test_a_judgement_that_is_no_function_of_a_module_is_refused(engine: Path) -> None:
    def local(judge: Judge, klass: Klass) -> Iterator[str]:
        yield klass.name

    judge = judge_of(engine, Memory())
    with pytest.raises(ValueError, match=r"<locals>\.local is no function of a module$"):
        list(judge.each(judge.classes, local))


def test_what_found_something_is_judged_again(engine: Path) -> None:
    cache = Memory()
    for _ in range(2):
        judge = judge_of(engine, cache)
        assert judge.kept is not None
        found = [d.code for d in RULES["MLA101"](judge)]
        records = judge.kept.made()
        judge.kept.save(records)
        assert found == ["MLA101", "MLA101"]
        assert "Slow" not in {judge.project.classes[number].name for _, number in records}
