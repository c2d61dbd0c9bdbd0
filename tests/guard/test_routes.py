"""Declared routes of wrappers: every breach that the guard finds, in its words."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from mla_guard import HookContractError, Routes, guard, guard_hierarchy, unguard_hierarchy, verify
from mla_guard.diagnostic import Place
from mla_guard.verification import breaches
from tests.guard.route_cases import CASES, EXPECTED_ENTRY, SOURCE, Case, source_with

_NUMBERS = itertools.count()
Load = Callable[[str], Any]


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Load]:
    """Import a source text as a module of its own."""
    names: list[str] = []

    def loaded(text: str) -> Any:
        path = tmp_path / f"routed_engine_{next(_NUMBERS)}.py"
        path.write_text(text, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        names.append(path.stem)
        spec.loader.exec_module(module)
        return module

    yield loaded
    for name in names:
        del sys.modules[name]


def found(target: Any) -> list[str]:
    """What is said of the routes of a class or an instance, sorted."""
    return sorted(d.message for d in breaches(target) if d.code == "MLA304")


def test_routes_that_hold(load: Load) -> None:
    engine = load(SOURCE)
    for target in (engine.Phases, engine.Deeper, engine.build(), engine.build_nested()):
        assert breaches(target) == ()
    assert engine.build_nested().forward("q") == "q"


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_each_breach(case: Case, load: Load) -> None:
    assert found(load(source_with(case)).build()) == list(case.messages)


def test_every_breach_at_once_and_before_the_first_hook_runs(load: Load) -> None:
    text = SOURCE.replace('"_planned": "decode",', "").replace('"depth": "self",', "")
    engine = load(text)
    with pytest.raises(HookContractError) as refusal:
        engine.build().plan("batch")
    assert type(refusal.value) is HookContractError
    assert [d.message for d in refusal.value.diagnostics] == [
        "Phases declares no route for depth, which AttentionBackend declares",
        "Phases declares no route for _planned, which AttentionBackend declares",
    ]


def test_a_finding_points_at_both_ends(load: Load) -> None:
    engine = load(SOURCE.replace("return [self.prefill, self.decode]", "return [self.prefill]"))
    [breach] = breaches(engine.Phases)
    path = engine.__file__
    assert breach.place == Place(path, 84, 9)
    assert breach.symbol == "Phases.needs_lens"
    assert [(r.place, r.message) for r in breach.related] == [
        (
            Place(path, 61, 7),
            "Phases routes needs_lens to any of self.prefill and self.decode",
        ),
        (Place(path, 8, 5), "AttentionBackend.needs_lens is declared here"),
    ]
    assert breach.hint == "Hand needs_lens on to self.decode, or correct the route."


def test_a_subclass_inherits_routes_and_is_held_to_its_own(load: Load) -> None:
    lost = SOURCE.replace('{"preferred_form": "self"}', '{"preferred_form": "decode"}')
    engine = load(lost)
    assert found(engine.Phases) == []
    assert found(engine.Deeper) == [
        "Deeper.preferred_form never touches self.decode, which the route of preferred_form names"
    ]
    bare = load(SOURCE.replace('    __mla_routes__ = {"preferred_form": "self"}\n\n', ""))
    assert found(bare.Deeper) == [
        "Deeper.preferred_form replaces what the route of preferred_form leaves to AttentionBackend"
    ]


def test_a_breach_inside_of_a_nested_wrapper_is_found_from_the_outermost(load: Load) -> None:
    engine = load(SOURCE)

    class Grown(engine.Leaf):  # type: ignore[misc, name-defined]
        def tune(self) -> None: ...

    nested = engine.Phases(engine.Deeper(Grown(), engine.Leaf()), engine.Leaf())
    assert found(nested) == [
        "Deeper declares no route for tune, which Grown, a class that it can hold, defines"
    ]
    assert found(engine.Phases(engine.Leaf(), Grown())) == [
        "Phases declares no route for tune, which Grown, a class that it can hold, defines"
    ]


def test_a_child_that_is_not_there(load: Load) -> None:
    engine = load(SOURCE)
    for value, what in ((None, "NoneType"), ([], "list"), (3, "int")):
        wrapper = engine.build()
        wrapper.decode = value
        assert found(wrapper) == [
            "Phases holds no AttentionBackend in self.decode, to which it routes needs_lens, "
            f"captures, dtype, page_size, plan, _planned, forward_decode: "
            f"it is of type {what}"
        ]
    wrapper = engine.build()
    del wrapper.decode
    [message] = found(wrapper)
    assert message.endswith("forward_decode: it does not exist")
    wrapper = engine.build()
    wrapper.decode = {"a": [engine.Leaf()]}
    assert found(wrapper) == []


def test_a_name_that_one_child_only_has_is_not_stale(load: Load) -> None:
    engine = load(SOURCE.replace('"chunk": "prefill",', '"chunk": "prefill", "tune": "base",'))
    stale = (
        "Phases routes tune, which neither AttentionBackend nor any backend that it can hold has"
    )
    assert found(engine.build()) == [stale]
    assert found(engine.Phases) == []
    wrapper = engine.build()
    wrapper.prefill.tune = 1
    assert found(wrapper) == []


def test_what_is_no_literal_for_the_linter_is_read_off_the_class() -> None:
    @guard
    class Base:
        def run(self) -> None: ...

    children = ("a", "b")

    class Wrapper(Base):
        __mla_routes__: ClassVar[Routes] = {"run": children}

        def run(self) -> None:
            for child in children:
                getattr(self, child).run()

    class Odd(Base):
        __mla_routes__: ClassVar[Any] = {"run": print, "walk": lambda: None}

    assert found(Wrapper) == [
        "Wrapper.run never touches self.a and self.b, which the route of run names"
    ]
    assert found(Odd) == [
        f"Odd.__mla_routes__['run'] is <built-in function print>, expected {EXPECTED_ENTRY}",
        f"Odd.__mla_routes__['walk'] is a function, expected {EXPECTED_ENTRY}",
    ]


def test_a_helper_a_parent_and_a_property_count_as_touching() -> None:
    @guard
    class Base:
        def run(self) -> None: ...
        def walk(self) -> None: ...
        def rest(self) -> None: ...

    class Common(Base):
        inner: Any

        @property
        def chosen(self) -> Any:
            return self.inner

        def run(self) -> None:
            self.chosen.run()

    class Wrapper(Common):
        __mla_routes__: ClassVar[Routes] = {"run": "inner", "walk": "inner", "rest": "inner"}

        def run(self) -> None:
            super().run()

        def walk(self) -> None:
            def later() -> None:
                getattr(self, "inner").walk()  # noqa: B009

            later()

        def rest(self) -> None:
            self._rest()

        def _rest(self) -> None:
            if hasattr(self, "inner"):
                self.rest()

    assert found(Wrapper) == []


def test_classes_without_a_source_are_judged_as_far_as_they_are_known() -> None:
    space: dict[str, Any] = {"guard": guard}
    exec(
        "@guard\n"
        "class Base:\n"
        "    def run(self): ...\n"
        "    def walk(self): ...\n"
        "class Wrapper(Base):\n"
        "    __mla_routes__ = {'run': 'inner', 'walk': 'inner'}\n"
        "    def __init__(self, inner): self.inner = inner\n"
        "    def run(self): pass\n",
        space,
    )
    assert found(space["Wrapper"]) == [
        "Wrapper routes walk to self.inner but does not define it: "
        "silently the default of Base instead"
    ]


def test_a_mixin_may_declare_routes() -> None:
    class Mixin:
        __mla_routes__: ClassVar[Routes] = {"run": "inner"}

    @guard
    class Base:
        def run(self) -> None: ...

    class Wrapper(Mixin, Base): ...

    assert found(Wrapper) == [
        "Wrapper routes run to self.inner but does not define it: "
        "silently the default of Base instead"
    ]


def test_getattr_answers_for_what_the_base_lacks() -> None:
    @guard
    class Base:
        def run(self) -> None: ...

    class Wrapper(Base):
        __mla_routes__: ClassVar[Routes] = {"run": "inner", "tune": "inner"}

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

    assert found(Wrapper) == [
        "Wrapper routes run to self.inner but does not define it: "
        "silently the default of Base instead"
    ]


def test_a_foreign_hierarchy_under_a_profile() -> None:
    class Base:
        quick = False

        def run(self) -> None: ...

    class Leaf(Base): ...

    class Wrapper(Base):
        __mla_routes__: ClassVar[Routes] = {"run": "base", "quick": "inner"}

        def __init__(self, inner: Any) -> None:
            self.inner, self.quick = inner, inner.quick

    guard_hierarchy(Base, {"flags": {"quick": "all"}})
    try:
        with pytest.raises(HookContractError) as refusal:
            verify(Wrapper(Leaf()))
        assert [d.message for d in refusal.value.diagnostics] == [
            "Wrapper routes quick to self.inner, but Base says that wrappers combine it by 'all'"
        ]
    finally:
        unguard_hierarchy(Base)


def test_a_hierarchy_without_routes_is_not_looked_at() -> None:
    @guard
    class Base:
        def run(self) -> None: ...

    class Wrapper(Base):
        def __init__(self, inner: Any = None) -> None:
            self.inner = inner

    verify(Wrapper(Wrapper()))
