"""verify() on classes, instances and trees of wrappers."""

from __future__ import annotations

from typing import Any

import pytest

from mla_guard import Armed, HookContractError, Status, delegate, guard, hook, status, verify
from mla_guard.verification import breaches
from mla_guard.verify_cli import main_verify


@guard(flags={"cheap": "all", "needs_lens": "any", "dtype": "same"})
class Base:
    cheap = False
    needs_lens = True
    dtype = "bf16"

    def run(self, batch: Any, flag: bool = False) -> Any:
        raise NotImplementedError

    @hook(optional=True)
    def probe(self, batch: Any) -> Any:
        return None

    @hook(optional=True, requires="workspace")
    def chunk(self, batch: Any) -> Any:
        raise NotImplementedError


class Leaf(Base):
    workspace = 1

    def run(self, batch: Any, flag: bool = False) -> Any:
        return batch


class Probed(Leaf):
    def probe(self, batch: Any) -> Any:
        return "probed"


class Wrapper(Base):
    workspace = 1

    def __init__(self, *inner: Any, **named: Any) -> None:
        self.inner = list(inner)
        vars(self).update(named)

    def run(self, batch: Any, flag: bool = False) -> Any:
        return [inner.run(batch, flag) for inner in self.inner]


class Exposing(Wrapper):
    def probe(self, batch: Any) -> Any:
        for inner in self.inner:
            inner.probe(batch)


def found(target: Any) -> list[tuple[str, str]]:
    return [(d.code, d.message) for d in breaches(target)]


def test_verify_raises_what_it_finds_and_never_an_attribute_error() -> None:
    wrapper = Wrapper(Probed())
    with pytest.raises(HookContractError) as caught:
        verify(wrapper)
    assert caught.type is HookContractError
    assert caught.value.diagnostics == breaches(wrapper)
    verify(Leaf())


def test_leaves_and_wrappers_that_are_right() -> None:
    assert found(Leaf) == found(Leaf()) == []
    assert found(Wrapper(Leaf(), Leaf())) == []
    assert found(Exposing(Probed())) == []
    assert found(Exposing(Exposing(Probed()), Leaf())) == []


def test_a_default_of_the_base_hides_what_the_inner_backend_has() -> None:
    message = (
        "Wrapper does not pass on probe, which callers probe and wrapped backends implement: "
        "silently the default of Base instead"
    )
    assert found(Wrapper(Leaf(), Probed())) == [("MLA301", message)]
    assert found(Exposing(Wrapper(Probed()))) == [("MLA301", message)]


def test_getattr_exposes_only_what_the_class_does_not_have() -> None:
    class Forwarding(Wrapper):
        def __getattr__(self, name: str) -> Any:
            if name.startswith("_") or name == "inner":
                raise AttributeError(name)
            return getattr(self.inner[0], name)

    assert found(Forwarding(Probed())) == [
        (
            "MLA301",
            "Forwarding does not pass on probe, which callers probe and wrapped backends "
            "implement: silently the default of Base instead",
        )
    ]


def flag(name: str, what: str) -> str:
    return f"Wrapper does not pass on {name}, which callers read and wrapped backends set: {what}"


def test_class_flags_are_combined() -> None:
    class Cheap(Leaf):
        cheap = True
        needs_lens = False
        dtype = "fp8"

    def wrapper(**flags: Any) -> Any:
        return Wrapper(Cheap(), Cheap(), **flags)

    assert found(wrapper(dtype="fp8")) == []
    assert found(wrapper(dtype="fp8", cheap=True, needs_lens=False)) == []
    assert found(wrapper()) == [("MLA302", flag("dtype", "'bf16' instead of 'fp8'"))]
    mixed = Wrapper(Cheap(), Leaf(), cheap=True, needs_lens=False)
    assert found(mixed) == [
        ("MLA302", flag("cheap", "True instead of False")),
        ("MLA302", flag("needs_lens", "False instead of True")),
    ]


def test_what_is_missing_on_an_instance_is_found_without_a_call() -> None:
    class Chunked(Leaf):
        def __init__(self, ready: bool) -> None:
            if ready:
                self.buffer = 1

        @hook(requires="buffer")
        def chunk(self, batch: Any) -> Any:
            return batch

    assert found(Chunked(True)) == []
    assert found(Chunked(False)) == [
        ("MLA202", "Chunked.chunk reads buffer unguarded: AttributeError on this instance")
    ]
    assert found(Chunked) == []


def test_a_wrapper_that_hands_on_to_nothing() -> None:
    class Bare(Base):
        workspace = 1

        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def run(self, batch: Any, flag: bool = False) -> Any:
            self.inner.run(batch)

        def probe(self, batch: Any) -> Any:
            self.inner.special(batch)

        @hook
        def special(self, batch: Any) -> Any:
            return batch

    assert found(Bare(Leaf())) == [
        (
            "MLA303",
            "Bare.probe hands special to self.inner unconditionally, but Leaf, which it holds, has "
            "none: AttributeError",
        )
    ]
    bare = Bare(Leaf())
    bare.run(1)
    assert status(bare).verified


def test_delegation_is_judged_as_delegate_would_decide() -> None:
    class Own(Base):
        workspace = 1

        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def run(self, batch: Any, flag: bool = False) -> Any:
            return delegate(self.inner, "run", batch, flag, 3)

    assert found(Own(Leaf())) == [
        (
            "MLA102",
            "run(batch, flag, ...) does not bind to Leaf.run(batch, flag=...)",
        )
    ]


def test_slots_dicts_and_cycles() -> None:
    class Slots(Base):
        __slots__ = ("held", "workspace")

        def run(self, batch: Any, flag: bool = False) -> Any:
            return batch

    slots: Any = Slots()
    slots.workspace = 1
    slots.held = {"a": Probed(), "b": 3}
    assert [code for code, _ in found(slots)] == ["MLA301"]
    loop = Exposing(Leaf())
    loop.inner.append(loop)
    assert found(loop) == []


def test_status_says_what_is_armed() -> None:
    class Phased(Base):
        workspace = 1

        @hook(phase=("prefill", "decode"), assumes="batch")
        def run(self, batch: Any, flag: bool = False) -> Any:
            return batch

    phased = Phased()
    assert status(phased) == Status(
        False,
        (
            Armed("Phased", "signatures"),
            Armed("Phased", "wrapped"),
            Armed("Phased", "assumes", "run", "batch", "prefill"),
            Armed("Phased", "assumes", "run", "batch", "decode"),
        ),
        ("chunk", "probe", "run"),
    )
    phased.run("x")
    assert [a.what for a in status(phased).armed] == ["assumes", "assumes"]
    assert status(Phased) == Status(True, (), ("run",))
    assert status(object()) == Status(False, (), ())


def test_verify_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    here = __name__
    assert main_verify([f"{here}:Leaf"]) == 0
    assert capsys.readouterr().out == f"{here}:Leaf: verified\n"
    assert main_verify([f"{here}:Broken", f"{here}:Leaf"]) == 1
    out = capsys.readouterr().out
    assert "MLA101 Broken.run cannot be called as Base.run can: drops 'flag' (position 2)" in out
    assert out.endswith(f"{here}:Leaf: verified\n")
    for target, why in (
        ("nowhere", "is not of the form MODULE:CLASS"),
        (
            "no_such_module:C",
            "cannot be imported: ModuleNotFoundError: No module named 'no_such_module'",
        ),
        (f"{here}:Nothing", "has no 'Nothing'"),
        (f"{here}:Armed", "Armed has no guarded base: nothing to verify"),
    ):
        assert main_verify([target]) == 2
        assert capsys.readouterr().err == f"{target}: {why}\n"
    assert main_verify([]) == 2


class Broken(Base):
    def run(self, batch: Any) -> Any:  # type: ignore[override]
        return batch
