"""What a method stores is known by name before its body is decoded, and the same afterwards."""

from __future__ import annotations

from pathlib import Path

import lint_rules
from lint_rules.extract import extract
from lint_rules.facts import Function, Write
from lint_rules.link import Klass, Project
from lint_rules.stores import computes_names

SOURCE = """
class Base:
    def __init__(self, other, batch):
        self.plain = 1
        other.given = 2
        self.inner.deep = 3
        setattr(self, "set", 4)
        for name in ("first", "second"):
            setattr(self, name, None)
        self.plain, (self.pair, _) = batch

    def computed(self, name):
        setattr(self, name, 1)

    def updated(me, values):
        me.__dict__.update(values)

    @staticmethod
    def static(batch):
        batch.of_static = 1


class Child(Base):
    def later(self):
        self.plain = 2
        self.own = 3


def plain(batch):
    batch.of_plain = 1
"""


def project() -> tuple[Project, dict[str, Klass], dict[str, Function]]:
    found = Project([extract("m.py", SOURCE)], ())
    methods = {m.name: m for k in found.classes for m in k.facts.methods}
    return found, {k.name: k for k in found.classes}, methods


def test_names_are_known_without_the_body() -> None:
    _, _, methods = project()
    init = methods["__init__"]
    vars(init).clear()
    assert init.stores == ("plain", "set", "first", "second", "pair")
    assert init.elsewhere == ("given", "deep")
    assert "events" not in vars(init)
    assert methods["static"].stores == ("of_static",)


def test_writes_of_the_whole_mro_by_name() -> None:
    _, classes, _ = project()
    stored = classes["Child"].stored
    assert list(stored) == ["plain", "own", "set", "first", "second", "pair", "of_static"]
    assert len(stored) == 7
    assert [(k.name, m.name, w.line) for k, m, w in stored["plain"]] == [
        ("Child", "later", 25), ("Base", "__init__", 4), ("Base", "__init__", 10),
    ]  # fmt: skip
    assert "given" not in stored
    assert stored.get("given", []) == []
    assert [w.value for _, _, w in stored["first"]] == [None]


def test_who_computes_names() -> None:
    _, _, methods = project()
    assert {name for name, m in methods.items() if computes_names(m)} == {"computed", "updated"}


def test_the_names_are_those_of_the_events() -> None:
    compared = 0
    for path in sorted(Path(next(iter(lint_rules.__path__))).glob("*.py")):
        facts = extract(path.name, path.read_text(encoding="utf-8"))
        for function in [*facts.functions, *(m for k in facts.classes for m in k.methods)]:
            kept = function.code
            vars(function).clear()
            assert function.code == kept
            written = {e.name for e in function.events if isinstance(e, Write)}
            assert written == {*function.stores, *function.elsewhere}
            compared += len(written)
    assert compared > 100
