"""Declared routes as the linter reads them: each breach, and in the guard's words."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lint_rules.config import Config
from lint_rules.run import check
from mla_guard.diagnostic import Diagnostic
from mla_guard.verification import breaches
from tests.guard.route_cases import CASES, SOURCE, Case, source_with


def linted(directory: Path) -> list[Diagnostic]:
    report = check([directory], Config(src=(directory,), root=directory))
    assert report.failures == ()
    return list(report.diagnostics)


def said(directory: Path) -> list[str]:
    return sorted(f"{d.code} {d.message}" for d in linted(directory))


@contextmanager
def imported(path: Path) -> Iterator[Any]:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        del sys.modules[path.stem]


def test_routes_that_hold_and_calls_by_delegate_are_no_findings(tmp_path: Path) -> None:
    (tmp_path / "engine.py").write_text(SOURCE, encoding="utf-8")
    assert [d for d in linted(tmp_path) if d.code != "MLA101"] == []


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_linter_and_guard_say_the_same(case: Case, tmp_path: Path) -> None:
    path = tmp_path / f"linted_{CASES.index(case)}.py"
    path.write_text(source_with(case), encoding="utf-8")
    ours = [d for d in linted(tmp_path) if d.code == "MLA304"]
    assert sorted(d.message for d in ours) == list(case.messages)
    with imported(path) as engine:
        theirs = [d for d in breaches(engine.build()) if d.code == "MLA304"]
    assert sorted(d.text() for d in ours) == sorted(d.text() for d in theirs)


HEAD = """\
from mla_guard import delegate, exposes, guard, hook, route


@guard
class AttentionBackend:
    def plan(self, batch):
        raise NotImplementedError


class Leaf(AttentionBackend):
    def plan(self, batch):
        self.batch = batch


"""


def test_what_is_no_literal(tmp_path: Path) -> None:
    wrapper = """\
ROUTES = {"plan": "inner"}


class Named(AttentionBackend):
    __mla_routes__ = ROUTES


class Called(AttentionBackend):
    __mla_routes__ = dict(
        plan="inner",  # a comment
    )


class Spread(AttentionBackend):
    __mla_routes__ = {**ROUTES, "replay": "inner"}
"""
    (tmp_path / "engine.py").write_text(HEAD + wrapper, encoding="utf-8")
    assert said(tmp_path) == [
        'MLA304 Called.__mla_routes__ is no literal: dict( plan="inner", # a comment ), '
        "expected a dict of names to routes",
        "MLA304 Named.__mla_routes__ is no literal: ROUTES, expected a dict of names to routes",
        'MLA304 Spread.__mla_routes__ is no literal: {**ROUTES, "replay": "inner"}, '
        "expected a dict of names to routes",
    ]


def test_a_breach_is_reported_on_the_topmost_class_that_has_it(tmp_path: Path) -> None:
    wrapper = """\
class Below(Wrapper):
    __mla_routes__ = {"replay": "base"}


class Wrapper(AttentionBackend):
    __mla_routes__ = {}

    def __init__(self, inner: AttentionBackend):
        self.inner = inner
"""
    (tmp_path / "engine.py").write_text(HEAD + wrapper, encoding="utf-8")
    assert said(tmp_path) == [
        "MLA304 Below routes replay, which neither AttentionBackend nor any backend that it can "
        "hold has",
        "MLA304 Wrapper declares no route for plan, which AttentionBackend declares",
    ]


def test_the_children_are_those_that_declarations_and_constructions_allow(tmp_path: Path) -> None:
    wrapper = """\
class Tree(AttentionBackend):
    def plan(self, batch):
        self.tree = batch

    def replay(self, batch):
        self.tree = batch


class Narrow(AttentionBackend):
    __mla_routes__ = {"plan": "inner"}

    def __init__(self, inner: Leaf):
        self.inner = inner

    def plan(self, batch):
        self.inner.plan(batch)


class Built(AttentionBackend):
    __mla_routes__ = {"plan": "inner"}

    def __init__(self, inner):
        self.inner = inner

    def plan(self, batch):
        self.inner.plan(batch)


def build():
    return Built(Leaf())


class Wide(AttentionBackend):
    __mla_routes__ = {"plan": "inner"}

    def __init__(self, inner):
        self.inner = inner

    def plan(self, batch):
        self.inner.plan(batch)
"""
    (tmp_path / "engine.py").write_text(HEAD + wrapper, encoding="utf-8")
    assert said(tmp_path) == [
        "MLA304 Wide declares no route for replay, which Tree, a class that it can hold, defines",
    ]


CHUNKS = """\
from mla_guard import delegate, exposes, guard, hook, route


@guard
class AttentionBackend:
    def plan(self, batch):
        raise NotImplementedError

    @hook(optional=True, optional_arguments={optional})
    def chunk(self, batch, ragged=False):
        raise NotImplementedError


class Leaf(AttentionBackend):
    def plan(self, batch):
        self.batch = batch

    def chunk(self, batch):  # mla-guard: ignore[MLA101] wrappers drop ragged
        self.chunks = batch


class Wrapper(AttentionBackend):
    def __init__(self, inner: Leaf):
        self.inner = inner

    def plan(self, batch):
        self.inner.plan(batch)

    def chunk(self, batch, ragged=False):
        if exposes(self.inner, "chunk"):
            {call}
"""


@pytest.mark.parametrize(
    ("optional", "call", "found"),
    [
        ('"ragged"', 'delegate(self.inner, "chunk", batch, ragged)', []),
        ('"ragged"', 'delegate(self.inner, "chunk", batch, ragged=ragged)', []),
        ('("ragged", "other")', 'mla_guard.delegate(self.inner, "chunk", batch, ragged)', []),
        ('"ragged"', 'handed = route(self.inner, "chunk"); handed(batch, ragged)', []),
        (
            '"other"',
            'delegate(self.inner, "chunk", batch, ragged)',
            [(31, 13, "chunk(batch, ragged) does not bind to Leaf.chunk(batch)")],
        ),
        (
            '"ragged"',
            'delegate(self.inner, "chunk", batch, ragged, 3)',
            [(31, 13, "chunk(batch, ragged, ...) does not bind to Leaf.chunk(batch)")],
        ),
        (
            '"ragged"',
            "self.inner.chunk(batch, ragged)",
            [(31, 24, "chunk(batch, ragged) does not bind to Leaf.chunk(batch)")],
        ),
    ],
)
def test_a_delegated_call_drops_what_the_contract_allows(
    optional: str, call: str, found: list[tuple[int, int, str]], tmp_path: Path
) -> None:
    text = CHUNKS.replace("{optional}", optional).replace("{call}", call)
    (tmp_path / "engine.py").write_text(text, encoding="utf-8")
    assert [
        (d.place.line, d.place.column, d.message)
        for d in linted(tmp_path)
        if d.code in ("MLA102", "MLA303")
    ] == found
    assert [d.code for d in linted(tmp_path) if d.code == "MLA301"] == []


def test_a_delegation_without_a_probe_may_promise_too_much(tmp_path: Path) -> None:
    wrapper = """\
class Wrapper(AttentionBackend):
    def __init__(self, inner: AttentionBackend):
        self.inner = inner

    def plan(self, batch):
        delegate(self.inner, "plan", batch)

    def chunk(self, batch):
        {call}


def build():
    return Wrapper(Leaf())
"""
    path = tmp_path / "engine.py"
    hard = 'delegate(self.inner, "chunk", batch)'
    path.write_text(HEAD + wrapper.replace("{call}", hard), encoding="utf-8")
    finding, removed = linted(tmp_path)  # no other backend has it either: MLA306
    assert (finding.code, finding.place.line, finding.place.column) == ("MLA303", 23, 9)
    assert (removed.code, removed.place.line) == ("MLA306", 23)
    assert finding.message == (
        "Wrapper.chunk hands chunk to self.inner unconditionally, but Leaf, which it can hold, has "
        "none: AttributeError"
    )
    path.write_text(
        HEAD + wrapper.replace("{call}", f'if exposes(self.inner, "chunk"): {hard}'),
        encoding="utf-8",
    )
    assert linted(tmp_path) == []
