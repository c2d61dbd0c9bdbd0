"""Hooks under torch.compile(fullgraph=True), before and after their first call."""

from __future__ import annotations

from typing import Any

import pytest

from mla_guard import guard, hook, status

torch = pytest.importorskip("torch")


def backend() -> Any:
    @guard
    class Base:
        @hook(requires="offset")
        def forward(self, q: Any, *, scale: float = 2.0) -> Any:
            raise NotImplementedError

    class Parent(Base):
        def __init__(self) -> None:
            self.offset = 1

        def forward(self, q: Any, *, scale: float = 2.0) -> Any:
            return q * scale + self.offset

    class Backend(Parent):
        def forward(self, q: Any, *, scale: float = 2.0) -> Any:
            return super().forward(q, scale=scale) + 1

    return Backend()


@pytest.fixture(autouse=True)
def _fresh_compiler() -> None:
    torch.compiler.reset()


def compiled(function: Any) -> Any:
    return torch.compile(function, fullgraph=True, backend="eager")


def test_a_verified_hook_compiles_whole() -> None:
    made = backend()
    assert made.forward(torch.ones(1)).tolist() == [4.0]
    assert status(made).installed == ()
    step = compiled(lambda q: made.forward(q, scale=3.0))
    assert step(torch.ones(1)).tolist() == [5.0]


def test_a_hook_compiles_whole_before_its_first_call_which_is_still_to_come() -> None:
    made = backend()
    step = compiled(lambda q: made.forward(q, scale=3.0))
    assert step(torch.ones(1)).tolist() == [5.0]
    assert [a.what for a in status(made).armed] == ["signatures", "wrapped", "requires"]
    assert made.forward(torch.ones(1)).tolist() == [4.0]
    assert status(made).armed == ()
    assert step(torch.ones(1)).tolist() == [5.0]


def test_a_bound_method_stored_before_the_first_call_compiles_whole() -> None:
    made = backend()
    stored = made.forward
    step = compiled(lambda q: stored(q))
    assert step(torch.ones(1)).tolist() == [4.0]
    assert stored(torch.ones(1)).tolist() == [4.0]
    assert step(torch.ones(1)).tolist() == [4.0]


def test_hooks_compile_whole_while_another_instance_or_phase_is_still_armed() -> None:
    @guard
    class Base:
        @hook(requires="offset", phase="prefill")
        def forward(self, q: Any, mode: str = "DECODE", *, scale: float = 2.0) -> Any:
            raise NotImplementedError

    class Backend(Base):
        offset = 1

        def forward(self, q: Any, mode: str = "DECODE", *, scale: float = 2.0) -> Any:
            return q * scale + self.offset

    class Batch:
        forward_mode = "EXTEND"

    first, second = Backend(), Backend()
    first.forward(torch.ones(1))
    assert status(first).installed == ("forward",)
    assert compiled(lambda q: first.forward(q, scale=3.0))(torch.ones(1)).tolist() == [4.0]
    assert compiled(lambda q: second.forward(q))(torch.ones(1)).tolist() == [3.0]
    first.forward(torch.ones(1), Batch())  # type: ignore[arg-type]
    assert (status(first).armed, len(status(second).armed)) == ((), 1)
    assert compiled(lambda q: first.forward(q, "x", scale=3.0))(torch.ones(1)).tolist() == [4.0]
