"""What a wrapper hands on, what it drops, and what it is refused."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from mla_guard import (
    HookAttributeError,
    HookCallError,
    HookContractError,
    delegate,
    exposes,
    guard,
    hook,
    route,
    unguard_hierarchy,
)
from mla_guard import delegate as delegate_function
from mla_guard.delegate import _PLANS


@guard
class Base:
    @hook(optional_arguments=("ragged", "tag"))
    def plan(self, batch: Any, ragged: bool = False, limit: int = 7, *, tag: str = "") -> Any:
        raise NotImplementedError

    @hook(optional=True)
    def probe(self, batch: Any) -> Any:
        raise NotImplementedError


class Full(Base):
    def plan(self, batch: Any, ragged: bool = False, limit: int = 7, *, tag: str = "") -> Any:
        return batch, ragged, limit, tag

    def probe(self, batch: Any) -> Any:
        return batch


class Narrow(Base):
    def plan(self, batch: Any, limit: int = 7) -> Any:  # type: ignore[override]
        return batch, limit


class NoLimit(Base):
    def plan(self, batch: Any) -> Any:  # type: ignore[override]
        return batch


def test_everything_is_passed_to_a_hook_that_takes_it() -> None:
    assert delegate(Full(), "plan", 1) == (1, False, 7, "")
    assert delegate(Full(), "plan", 1, True, 2, tag="t") == (1, True, 2, "t")
    assert delegate(Full(), "plan", batch=1, limit=3) == (1, False, 3, "")


@pytest.mark.parametrize("_", range(2))
def test_what_the_contract_marks_optional_is_dropped_and_the_rest_keeps_its_place(_: int) -> None:
    assert delegate(Narrow(), "plan", 1, ragged=True) == (1, 7)
    assert delegate(Narrow(), "plan", 1, True, 2) == (1, 2)
    assert delegate(Narrow(), "plan", 1, True, limit=3, tag="t") == (1, 3)


def test_nothing_else_is_dropped() -> None:
    for _ in range(2):
        with pytest.raises(HookCallError) as caught:
            delegate(NoLimit(), "plan", 1, False, 2)
        [diagnostic] = caught.value.diagnostics
        assert (diagnostic.code, diagnostic.reasons) == (
            "MLA102",
            ("NoLimit.plan takes at most 1 positional argument, 3 passed",),
        )
        assert diagnostic.symbol == "test_nothing_else_is_dropped"
    with pytest.raises(HookCallError):
        delegate(Full(), "plan", 1, unknown=2)
    with pytest.raises(HookCallError):
        delegate(Full(), "plan")


def test_a_hook_that_is_not_there() -> None:
    for call in (lambda: delegate(object(), "plan", 1), lambda: route(object(), "plan")):
        with pytest.raises(HookAttributeError) as caught:
            call()
        [diagnostic] = caught.value.diagnostics
        assert diagnostic.code == "MLA303"
        assert diagnostic.message.partition(" hands ")[2] == (
            "plan to inner unconditionally, but object, which it holds, has none: AttributeError"
        )


def test_exposes_sees_through_defaults_without_a_body() -> None:
    class Hidden(Full):
        probe = None  # type: ignore[assignment]

    class Forwarding:
        def __getattr__(self, name: str) -> Any:
            if name == "probe":
                return Full().probe
            raise AttributeError(name)

    assert [exposes(x, "probe") for x in (Full(), Narrow(), Hidden(), Forwarding(), object())] == [
        True,
        False,
        False,
        True,
        False,
    ]
    assert not exposes(Forwarding(), "other")


def test_a_hook_replaced_on_the_instance_is_asked_itself() -> None:
    narrow: Any = Narrow()
    assert delegate(narrow, "plan", 1, limit=2) == (1, 2)
    narrow.plan = lambda batch, ragged, tag: (batch, ragged, tag)
    assert delegate(narrow, "plan", 1, True, tag="t") == (1, True, "t")
    assert delegate(Narrow(), "plan", 1, True, tag="t") == (1, 7)


def test_route_is_the_bound_method_where_all_is_taken() -> None:
    full = Full()
    full.plan(1)
    assert route(full, "plan") == full.plan
    assert route(full, "plan")(1, True, 2, tag="t") == (1, True, 2, "t")


def test_route_drops_what_delegate_drops_and_refuses_at_construction() -> None:
    assert route(Narrow(), "plan")(1, True, 2, tag="t") == (1, 2)
    with pytest.raises(HookCallError) as caught:
        route(NoLimit(), "plan")
    assert [(d.code, d.reasons) for d in caught.value.diagnostics] == [
        ("MLA102", ("NoLimit.plan drops 'limit' (position 3)",))
    ]


def test_route_of_a_hook_that_nobody_declared_is_the_hook() -> None:
    class Plain:
        def anything(self, x: int) -> int:
            return x

    plain = Plain()
    assert route(plain, "anything") == plain.anything
    assert delegate(plain, "anything", 2) == 2


def test_a_decision_does_not_outlive_its_class_or_keep_it() -> None:
    def use() -> weakref.ref[type]:
        class Short(Base):
            def plan(self, batch: Any, limit: int = 7) -> Any:  # type: ignore[override]
                return batch

        assert delegate_function(Short(), "plan", 1, ragged=True) == 1
        return weakref.ref(Short)

    gc.collect()
    before = len(_PLANS.get("plan", ()))
    reference = use()
    assert len(_PLANS["plan"]) == before + 1
    gc.collect()
    assert reference() is None
    assert len(_PLANS["plan"]) == before


def test_a_decision_is_made_anew_when_a_base_is_guarded_or_freed() -> None:
    class Own:
        @hook(optional_arguments="flag")
        def run(self, x: int, flag: bool = False) -> int:
            raise NotImplementedError

    class Short(Own):
        def run(self, x: int) -> int:  # type: ignore[override]
            return x

    assert delegate(Short(), "run", 1, flag=True) == 1
    guard(Own)
    assert _PLANS == {}
    assert delegate(Short(), "run", 1, flag=True) == 1
    assert list(_PLANS) == ["run"]
    unguard_hierarchy(Own)
    assert _PLANS == {}
    assert delegate(Short(), "run", 1, flag=True) == 1


def test_delegation_to_a_guarded_hook_is_verified_on_its_first_call() -> None:
    class Bad(Base):
        def plan(self, batch: Any, other: int) -> Any:  # type: ignore[override]
            return batch

    with pytest.raises(HookContractError) as caught:
        delegate(Bad(), "plan", 1, 2)
    assert [d.code for d in caught.value.diagnostics] == ["MLA101"]
