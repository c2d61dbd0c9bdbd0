"""Which calls a body is certain to make, and on what."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any

import pytest

from mla_guard import delegate, exposes
from mla_guard.creation import creation
from mla_guard.drift import POSITIONAL_OR_KEYWORD, Param
from mla_guard.handed import handed
from mla_guard.phase import PhaseReader


class Bodies:
    inner: Any
    others: Any
    flag: bool

    def plain(self, a: Any, b: Any) -> Any:
        return self.inner.hook(a, b, key=1)

    def through_a_name(self, a: Any) -> Any:
        held = self.inner
        run = held.hook
        run(a, *a, **a)

    def probed(self, a: Any) -> Any:
        hook = getattr(self.inner, "hook", None)
        if hook is not None:
            hook(a)

    def probed_by_absence(self, a: Any) -> Any:
        hook = getattr(self.inner, "hook", None)
        if hook is None:
            return None
        return hook(a)

    def probed_by_hasattr(self, a: Any) -> Any:
        if hasattr(self.inner, "hook"):
            self.inner.hook(a)
        if not exposes(self.inner, "hook"):
            return
        self.inner.hook(a, 1)

    def each(self, a: Any) -> Any:
        for one in self.others:
            one.hook(a)

    def delegated(self, a: Any) -> Any:
        return delegate(self.inner, "hook", a, key=2)

    def parents(self, a: Any) -> Any:
        with self.inner:
            super().parents(a)  # type: ignore[misc]

    def conditional(self, a: Any) -> Any:
        if self.flag:
            self.inner.hook(a)
        return self.inner.hook(a) if a else None

    def after_a_way_out(self, a: Any) -> Any:
        if self.flag:
            return None
        return self.inner.hook(a)

    def caught(self, a: Any) -> Any:
        try:
            return self.inner.hook(a)
        except AttributeError:
            return None

    def suppressed(self, a: Any) -> Any:
        with contextlib.suppress(AttributeError):
            self.inner.hook(a)

    def lazily(self, a: Any) -> Any:
        return lambda: self.inner.hook(a)

    def rebound(self, a: Any) -> Any:
        held = self.inner
        held = a
        held.hook(a)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("plain", ["inner.hook(a, b, key=...)"]),
        ("through_a_name", ["inner.hook(a, *..., **...)"]),
        ("probed", ["inner.hook(a) probed"]),
        ("probed_by_absence", ["inner.hook(a) probed"]),
        ("probed_by_hasattr", ["inner.hook(a) probed", "inner.hook(a, ...) probed"]),
        ("each", ["others.hook(a) each"]),
        ("delegated", ["inner.hook(a, key=...) delegated"]),
        ("parents", ["super().parents(a)"]),
        ("conditional", []),
        ("after_a_way_out", []),
        ("caught", []),
        ("suppressed", []),
        ("lazily", []),
        ("rebound", []),
    ],
)
def test_certain_calls(name: str, expected: list[str]) -> None:
    said = []
    for call in handed(vars(Bodies)[name]):
        how = [word for word in ("each", "probed", "delegated") if getattr(call, word)]
        said.append(" ".join([f"{call.to}.{call.hook}{call.call}", *how]))
    assert said == expected


def test_a_function_without_a_source_hands_on_nothing_that_is_known() -> None:
    space: dict[str, Any] = {}
    exec("def hook(self, a):\n    self.inner.hook(a)", space)
    assert handed(space["hook"]) == ()


class Parent:
    def __init__(self, skip: bool, mode: str) -> None:
        self.skip, self.mode = skip, mode
        if not skip:
            if self.mode == "fast":
                self.buffer = 1
            else:
                self.spare = 1


class Child(Parent):
    def late(self) -> None:
        self.buffer = 2


def test_where_an_attribute_would_have_been_created() -> None:
    related, reasons = creation(Child(True, "fast"), "buffer")
    assert [r.message for r in related] == [
        "Child creates buffer",
        "Parent creates buffer only if not skip and self.mode == 'fast'",
    ]
    assert reasons == ("on this Child skip is True, mode is 'fast'",)
    related, reasons = creation(Child(False, "fast"), "spare")
    assert [r.message for r in related] == [
        "Parent creates spare only if not skip and not (self.mode == 'fast')"
    ]
    assert reasons == ("on this Child skip is False, mode is 'fast'",)
    assert creation(Child(True, ""), "nothing") == ((), ())


def reader(*names: str, **modes: str) -> PhaseReader:
    shape = tuple(Param(name, POSITIONAL_OR_KEYWORD, True) for name in names)
    return PhaseReader(shape, modes)


def test_the_phase_of_a_call() -> None:
    me = object()
    batch = SimpleNamespace(forward_mode=SimpleNamespace(name="EXTEND"))
    decode = SimpleNamespace(forward_mode="decode")
    read = reader("q", "batch", "in_capture")
    assert read((me, 1, batch), {}) == "prefill"
    assert read((me, 1, decode), {}) == "decode"
    assert read((me, decode, 1), {}) == "decode"
    assert read((me, 1), {"batch": batch}) == "prefill"
    assert read((me, 1, batch, True), {}) == "capture"
    assert read((me, 1, batch), {"in_capture": True}) == "capture"
    assert read((me, 1, batch), {"in_capture": False}) == "prefill"
    assert read((me, 1, 2), {}) is None
    assert read((me,), {}) is None
    by_mode = reader("bs", "forward_mode")
    assert by_mode((me, 1, "TARGET_VERIFY"), {}) == "verify"
    assert by_mode((me, 1), {"forward_mode": "Unheard_Of"}) == "unheard_of"
    assert by_mode((me, 1, 3), {}) is None
    assert reader("batch", EXTEND="mine", tree="verify")((me, batch), {}) == "mine"
    assert reader("mode", TREE="verify")((me,), {"forward_mode": "tree"}) == "verify"
