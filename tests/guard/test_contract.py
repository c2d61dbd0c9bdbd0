"""What is read off a base class."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from typing import Any

import pytest

from mla_guard import Clause, Contract, Hook, contract_of, guard, hook
from mla_guard.contract import only_raises
from mla_guard.drift import KEYWORD_ONLY, POSITIONAL_OR_KEYWORD, Param


def ready(self: Any) -> bool:
    return True


class Base(ABC):
    flag = True

    def plain(self, batch: int, in_capture: bool = False) -> int:
        return 1

    def raising(self) -> None:
        """Say why."""
        raise NotImplementedError(f"{self} has none") from None

    async def waiting(self) -> None:
        raise NotImplementedError

    @abstractmethod
    def abstract(self, *, key: int) -> None: ...

    @staticmethod
    def static(x: int) -> int:
        return 1

    @classmethod
    def of(cls, x: int) -> int:
        return 1

    @property
    def size(self) -> int:
        raise NotImplementedError

    @functools.cached_property
    def once(self) -> int:
        return 1

    @functools.lru_cache  # noqa: B019
    def cached(self, x: int) -> int:
        return x

    @hook(optional=True, optional_arguments="y")
    def probed(self, x: int, y: int = 0) -> None:
        raise NotImplementedError

    @hook(phase=("prefill", "decode"), requires="a.b", assumes="x > 0")
    @hook(after=("plain", "raising"), ensures=ready)
    def marked(self, x: int) -> None:
        return None

    @hook
    def _private(self) -> int:
        return 1

    def _unmarked(self) -> int:
        return 1

    class Nested: ...


def test_the_contract_of_a_base() -> None:
    def normal(name: str, required: bool = True) -> Param:
        return Param(name, POSITIONAL_OR_KEYWORD, required)

    x = normal("x")
    expected = [
        Hook("plain", "method", (normal("batch"), normal("in_capture", False))),
        Hook("raising", "method", (), required=True),
        Hook("waiting", "method", (), required=True),
        Hook("abstract", "method", (Param("key", KEYWORD_ONLY, True),), required=True),
        Hook("static", "static", (x,)),
        Hook("of", "class", (x,)),
        Hook("size", "property", (), required=True),
        Hook("once", "property", ()),
        Hook("cached", "method", (x,)),
        Hook("probed", "method", (x, normal("y", False)), optional=True, optional_arguments=("y",)),
        Hook(
            "marked",
            "method",
            (x,),
            clauses=(
                Clause("requires", "a.b", "prefill"),
                Clause("requires", "a.b", "decode"),
                Clause("assumes", "x > 0", "prefill"),
                Clause("assumes", "x > 0", "decode"),
                Clause("after", "plain"),
                Clause("after", "raising"),
                Clause("ensures", "ready"),
            ),
        ),
        Hook("_private", "method", ()),
    ]
    assert contract_of(Base) == Contract("Base", {h.name: h for h in expected})


def test_the_contract_is_the_same_while_stand_ins_are_in_place() -> None:
    class Root:
        def run(self, x: int) -> int:
            return x

        @property
        def size(self) -> int:
            return 1

    bare = contract_of(Root)
    guard(Root)
    instance = Root()
    assert contract_of(Root) == bare
    assert {n: h.place for n, h in contract_of(Root).hooks.items()} == {
        n: h.place for n, h in bare.hooks.items()
    }
    instance.run(1)
    assert contract_of(Root) == bare


def test_a_mark_returns_the_function_itself() -> None:
    def run(self: Any) -> None: ...

    before = dict(vars(run))
    assert hook(optional=True)(run) is run
    assert vars(run).keys() - before.keys() == {"__mla_hook__"}


@pytest.mark.parametrize("target", [1, None, "run", Base])
def test_a_mark_on_what_is_no_function(target: Any) -> None:
    with pytest.raises(TypeError, match="@hook marks a function"):
        hook(optional=True)(target)


def test_an_expression_that_is_none() -> None:
    with pytest.raises(SyntaxError):
        hook(assumes="not (")


def conditional(self: Any) -> None:
    if self.x:
        raise KeyError
    raise NotImplementedError


def busy(self: Any) -> None:
    self.x = 1
    raise NotImplementedError


def documented(self: Any) -> None:
    """Say."""
    raise NotImplementedError("so")


def generator(self: Any) -> Any:
    yield 1
    raise NotImplementedError


async def coroutine(self: Any) -> None:
    raise NotImplementedError


async def awaiting(self: Any) -> None:
    await self.x()
    raise NotImplementedError


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (conditional, False),
        (busy, False),
        (documented, True),
        (generator, False),
        (coroutine, True),
        (awaiting, False),
    ],
)
def test_a_body_that_only_raises(function: Any, expected: bool) -> None:
    assert only_raises(function.__code__) is expected
