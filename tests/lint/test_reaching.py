"""What is left out by names alone holds no backend: the same is found with nothing left out."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

import lint_rules.demo
import mla_runtime
from lint_rules.config import Config
from lint_rules.library import Library
from lint_rules.run import read_project
from lint_rules.tree import list_files
from lint_rules.types import Types
from tests.lint.edits import Tree

KINDS = """
import typing
from engine.base import AttentionBackend, Fast as Quick
import engine.base as base

class Local(Quick):  # so that the file is read whole
    pass


Other = Quick if typing.TYPE_CHECKING else base.Slow


def shared(): return Other(1)


def kept(kind: type[AttentionBackend]):
    class Holder:
        def __init__(self):
            self.made = kind(1)
            self.kind = kind
            self.parts = []
            self.parts.append(typing.cast("Quick", self.unknown))

        def again(self):
            return self.kind(2), getattr(self, "made"), copied([*self.parts])

        @property
        def whole(self):
            return self.made

    return Holder


def copied(x):
    y = list(x)
    for item in y:
        item.run(1)
    return y[0] or Quick.create()


def later(holder, flag):
    holder.whole.run(2)
    one = holder.whole if flag else shared()
    one.run(3)
    with one as two:
        two.lost()
    return (lambda: one)().run(4)
"""
BASE = """
class AttentionBackend:
    def __init__(self, a): ...
    def run(self, q): ...
    @classmethod
    def create(cls) -> "AttentionBackend": ...


class Fast(AttentionBackend): ...


class Slow(AttentionBackend):
    def run(self): ...
"""


class _All(frozenset[str]):
    def __contains__(self, name: object) -> bool:
        return True


def learnt(root: Path) -> Any:
    """What the types of a project are: evidence, and every use of a backend."""
    with Library(list_files([root], Config()), None, 0) as library:
        view = read_project(library, Config())[1].view

    def said(table: Any) -> Any:
        return {
            name: {k.qualname: (sorted(x.qualname for x in t.named), t.many, t.outer)}
            for name, by_root in table.items()
            for k, t in ((k, evidence.typed) for k, evidence in by_root.items())
        }

    uses = [(u.place, u.name, u.kind, sorted(k.qualname for k in u.typed.named))
            for uses in view.uses.values() for u in uses]  # fmt: skip
    return said(view.types._names), said(view.types._returns), uses


def same_with_nothing_left_out(root: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    found = learnt(root)
    with monkeypatch.context() as everything:
        everything.setattr(Types, "_reached", lambda self: _All())
        everything.setattr(Types, "_without_backends", lambda self: frozenset())
        assert learnt(root) == found
    return found


@pytest.mark.parametrize("package", [lint_rules.demo, mla_runtime])
def test_of_whole_packages(package: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert same_with_nothing_left_out(Path(package.__file__).parent, monkeypatch)[2]


def test_of_every_way_to_hold_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "base.py").write_text(BASE)
    (tmp_path / "engine" / "kinds.py").write_text(KINDS)
    names, returns, uses = same_with_nothing_left_out(tmp_path, monkeypatch)
    lines = KINDS.split("\n")
    assert list(names) == ["made"]
    assert sorted(returns) == ["again", "copied", "shared", "whole"]
    assert [(lines[line - 1].strip(), name) for (_, line), name, _, _ in uses] == [
        ("one.run(3)", "run"),
        ("two.lost()", "lost"),
    ]


def test_after_edits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = Tree(tmp_path, Random(5))
    for _ in range(8):
        for _ in range(3):
            tree.edit()
        same_with_nothing_left_out(tmp_path, monkeypatch)
