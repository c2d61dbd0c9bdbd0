"""The table of routes through wrappers: as printed, and as it is when a hook is really called."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from lint_rules.chains import Chain, chains
from lint_rules.config import Config
from lint_rules.library import Library
from lint_rules.run import read_project
from lint_rules.tree import list_files
from mla_guard.cli import main

ENGINE = """\
from mla_guard import guard

CALLS = []


@guard(flags={"quick": "all"})
class AttentionBackend:
    quick = False

    def plan(self, batch):
        raise NotImplementedError

    def chunk(self, batch):
        raise NotImplementedError

    def shape(self):
        CALLS.append("AttentionBackend.shape")
        return 0

    def depth(self):
        CALLS.append("AttentionBackend.depth")
        return 0


class Leaf(AttentionBackend):
    quick = True

    def plan(self, batch):
        CALLS.append("Leaf.plan")

    def shape(self):
        CALLS.append("Leaf.shape")
        return 1

    def depth(self):
        CALLS.append("Leaf.depth")
        return 1


class Child(Leaf):
    def __init__(self):
        self.tag = "child"

    def chunk(self, batch):
        CALLS.append("Child.chunk")


class Phases(AttentionBackend):
    __mla_routes__ = {
        "quick": {"all": ("prefill", "decode")},
        "plan": ("prefill", "decode"),
        "chunk": "prefill",
        "shape": "self",
        "depth": "base",
        "tag": "decode",
    }

    def __init__(self, prefill: Leaf, decode: Leaf):
        self.prefill, self.decode = prefill, decode

    @property
    def quick(self):
        return self.prefill.quick and self.decode.quick

    @property
    def tag(self):
        return self.decode.tag

    def plan(self, batch):
        self.prefill.plan(batch)
        self.decode.plan(batch)

    def chunk(self, batch):
        self.prefill.chunk(batch)

    def shape(self):
        CALLS.append("Phases.shape")
        return 2


class Overlap(AttentionBackend):
    __mla_routes__ = {
        "quick": {"all": "inner"},
        "plan": "inner",
        "chunk": "inner",
        "shape": "inner",
        "depth": "inner",
        "tag": "inner",
    }

    def __init__(self, inner: Phases):
        self.inner = inner
        self.quick = inner.quick

    @property
    def tag(self):
        return self.inner.tag

    def plan(self, batch):
        self.inner.plan(batch)

    def chunk(self, batch):
        self.inner.chunk(batch)

    def shape(self):
        return self.inner.shape()

    def depth(self):
        return self.inner.depth()
"""

TABLE = """\
  1  quick
  2  plan
  3  chunk
  4  shape
  5  depth
  6  tag

                                         1  2  3  4  5  6
Overlap.inner > Phases.prefill > Leaf    I  I  r  s  b  -
Overlap.inner > Phases.prefill > Child   i  i  I  s  b  -
Overlap.inner > Phases.decode > Leaf     I  I  -  s  b  .
Overlap.inner > Phases.decode > Child    i  i  -  s  b  I
Phases.prefill > Leaf                    I  I  r  s  b  -
Phases.prefill > Child                   i  i  I  s  b  -
Phases.decode > Leaf                     I  I  -  s  b  .
Phases.decode > Child                    i  i  -  s  b  I

I reaches an implementation there  i reaches an inherited one  r reaches one that only raises
. reaches nothing  - not routed to this child  s the wrapper's own  b the base's  ? no route
"""


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text("")
    path = tmp_path / "engine.py"
    path.write_text(ENGINE, encoding="utf-8")
    return path


def rows(engine: Path) -> list[Chain]:
    with Library(list_files([engine.parent], Config()), None, 0) as library:
        _, judge = read_project(library, Config())
    below = sorted(judge.view.backends, key=lambda k: k.name)
    return chains(judge.view, below)


def test_the_table_follows_the_matrix(
    engine: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(engine.parent)
    assert main(["contract", "--matrix", "engine.py"]) == 0
    matrix, legend, table = capsys.readouterr().out.partition(
        "I implements  D drifts  i inherits  d delegates  r raises only  . absent\n\n"
    )
    assert legend
    assert matrix.startswith("  1  plan(batch)\n")
    assert table == TABLE


def test_a_route_that_is_missing_shows(engine: Path) -> None:
    engine.write_text(ENGINE.replace('        "shape": "self",\n', ""), encoding="utf-8")
    assert [str(row) for row in rows(engine) if row.cells["shape"] == "?"] == [
        str(row) for row in rows(engine)
    ]


def test_each_cell_is_what_a_call_does(engine: Path) -> None:
    found = rows(engine)
    plain = engine.with_name("plain.py")  # the guard itself would ask the backends
    plain.write_text(ENGINE.replace('@guard(flags={"quick": "all"})\n', ""), encoding="utf-8")
    space = runpy.run_path(str(plain))
    assert len(found) == 8
    for row in found:
        assert {name: happens(space, row, name) for name in row.cells} == row.cells


def happens(space: dict[str, Any], row: Chain, name: str) -> str:
    """The letter for what asking the outermost wrapper for ``name`` does to the innermost class."""
    (wrapper, held), leaf = row.steps[-1], space[row.leaf.name]
    asked: list[str] = []

    def noticing(self: object, attribute: str) -> Any:
        asked.append(attribute)
        return object.__getattribute__(self, attribute)

    spy = type("Spy", (leaf,), {"__getattribute__": noticing})
    other = "decode" if held == "prefill" else "prefill"
    innermost = spy()
    backend = space[wrapper.name](**{held: innermost, other: space["Child"]()})
    for klass, attribute in reversed(row.steps[:-1]):
        backend = space[klass.name](**{attribute: backend})
    calls: list[str] = space["CALLS"]
    calls.clear()
    try:
        value = getattr(backend, name)
        if callable(value):
            value(*["batch"] if name in ("plan", "chunk") else [])
    except AttributeError:
        return "."
    except NotImplementedError:
        return "r"
    if name in asked:
        own = name in vars(leaf) or name in vars(innermost)
        return "I" if own else "i"
    letters = {wrapper.name: "s", "AttentionBackend": "b"}
    made_by = {letters.get(call.partition(".")[0], "-") for call in calls}
    return made_by.pop() if len(made_by) == 1 else "-"
