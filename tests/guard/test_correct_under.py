"""What Python can do to a class and its instances while they are guarded."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import functools
import gc
import inspect
import os
import pickle
import sys
import weakref
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from mla_guard import (
    HookCallError,
    HookContractError,
    contract_of,
    delegate,
    guard,
    guard_hierarchy,
    hook,
    status,
    unguard_hierarchy,
    verify,
)


class Batch:
    def __init__(self, mode: str) -> None:
        self.forward_mode = mode


PREFILL, DECODE = Batch("EXTEND"), Batch("DECODE")


def body(cls: type, name: str) -> Any:
    """What stands in the class body, or None."""
    return vars(cls).get(name)


@pytest.fixture
def checked() -> list[str]:
    return []


def base(checked: list[str]) -> Any:
    def counted(self: Any) -> bool:
        checked.append(type(self).__name__)
        return True

    @guard
    class Base:
        @hook(assumes=counted)
        def run(self, x: int) -> Any:
            raise NotImplementedError

    return Base


def test_super_chains_verify_once_and_run_each_level_once(checked: list[str]) -> None:
    Base = base(checked)
    ran: list[str] = []

    class A(Base):  # type: ignore[misc, valid-type]
        def run(self, x: int) -> Any:
            ran.append("A")
            return x

    class B(A):
        def run(self, x: int) -> Any:
            ran.append("B")
            return super().run(x) + 1

    class C(B):
        def run(self, x: int) -> Any:
            ran.append("C")
            return super().run(x) + 1

    originals = {cls: body(cls, "run") for cls in (A, B, C)}
    assert C().run(1) == 3
    assert A().run(1) == 1
    assert B().run(1) == 2
    assert ran == ["C", "B", "A", "A", "B", "A"]
    assert checked == ["C", "A", "B"]
    assert {cls: body(cls, "run") for cls in (A, B, C)} == originals


def test_a_class_is_clear_as_soon_as_it_is_verified_not_when_its_parent_is(
    checked: list[str],
) -> None:
    Base = base(checked)

    class Parent(Base):  # type: ignore[misc, valid-type]
        def run(self, x: int) -> Any:
            return x

    class Child(Parent):
        pass

    original = Parent.run
    waiting, child = Parent(), Child()
    assert child.run(2) == 2
    assert Parent.run is not original
    assert Child.run is original
    assert waiting.run(3) == 3
    assert Parent.run is original
    assert body(Child, "run") is None
    assert checked == ["Child", "Parent"]


def test_a_diamond_is_not_disturbed_by_what_keeps_a_class_clear(checked: list[str]) -> None:
    Base = base(checked)

    class Parent(Base):  # type: ignore[misc, valid-type]
        def run(self, x: int) -> Any:
            return "parent"

    class Left(Parent):
        pass

    class Right(Parent):
        def run(self, x: int) -> Any:
            return "right"

    waiting = Parent()
    assert Left().run(1) == "parent"
    assert Left.run is vars(Parent)["run"].__wrapped__

    class Both(Left, Right):
        pass

    assert body(Left, "run") is None
    assert Both().run(1) == "right"
    assert [Left().run(1), waiting.run(1), Right().run(1)] == ["parent", "parent", "right"]
    assert all("run" not in vars(cls) for cls in (Left, Both))


def test_a_cooperative_diamond_runs_every_level_in_order(checked: list[str]) -> None:
    Base = base(checked)
    ran: list[str] = []

    class Root(Base):  # type: ignore[misc, valid-type]
        def run(self, x: int) -> Any:
            ran.append("Root")

    class Left(Root):
        pass

    class Right(Root):
        def run(self, x: int) -> Any:
            ran.append("Right")
            super().run(x)

    class Both(Left, Right):
        def run(self, x: int) -> Any:
            ran.append("Both")
            super().run(x)

    armed = Left()
    Both().run(1)
    armed.run(1)
    assert ran == ["Both", "Right", "Root", "Root"]


def test_a_mixin_in_front_of_the_base_is_held_to_the_contract(checked: list[str]) -> None:
    Base = base(checked)

    class Mixin:
        def run(self) -> Any:
            return "mixin"

    class Mixed(Mixin, Base):  # type: ignore[misc, valid-type]
        pass

    with pytest.raises(HookCallError) as caught:
        Mixed().run()
    assert [d.code for d in caught.value.diagnostics] == ["MLA101"]
    assert caught.value.diagnostics[0].symbol == "Mixin.run"


def test_class_static_and_property_hooks() -> None:
    @guard
    class Base:
        @staticmethod
        def name() -> str:
            raise NotImplementedError

        @classmethod
        def make(cls, n: int = 1) -> Any:
            return cls, n

        @property
        def size(self) -> int:
            raise NotImplementedError

        @functools.cached_property
        def once(self) -> object:
            return object()

    name = staticmethod(lambda: "good")
    size = property(lambda self: 3)
    Good: Any = type("Good", (Base,), {"name": name, "size": size})
    assert Good.name() == "good"
    assert (Good.make(), Good.make(2)) == ((Good, 1), (Good, 2))
    good = Good()
    assert good.size == 3
    assert good.once is good.once
    assert (body(Good, "name"), body(Good, "size"), body(Good, "make")) == (name, size, None)

    class Nameless(Base):
        @property
        def size(self) -> int:
            return 3

    with pytest.raises(HookContractError):
        Nameless.name()
    for read in (
        lambda: Nameless().size,
        lambda: hasattr(Nameless(), "size"),
        lambda: getattr(Nameless(), "size", None),
    ):
        with pytest.raises(HookContractError) as caught:
            read()
        assert caught.type is HookContractError


def test_a_breach_in_a_property_is_not_swallowed_by_getattr() -> None:
    @guard
    class Base:
        @property
        def size(self) -> int:
            raise NotImplementedError

        def other(self) -> None:
            raise NotImplementedError

    class Proxy(Base):
        @property
        def size(self) -> int:
            return 1

        def __getattr__(self, name: str) -> Any:
            return "delegated"

    with pytest.raises(HookContractError) as caught:
        Proxy().size  # noqa: B018
    assert not issubclass(caught.type, AttributeError)


def test_signature_name_and_doc_are_those_of_the_original_while_armed() -> None:
    @guard
    class Base:
        def run(self, x: int, *, y: str = "y") -> str:
            """Say so."""
            raise NotImplementedError

    class Good(Base):
        def run(self, x: int, *, y: str = "y", z: int = 0) -> str:
            """Say more."""
            return f"{x}{y}{z}"

    original = body(Good, "run")
    good = Good()
    armed = body(Good, "run")
    assert armed is not original
    assert inspect.signature(good.run) == inspect.signature(original.__get__(good))
    assert (armed.__name__, armed.__qualname__, armed.__doc__, armed.__module__) == (
        original.__name__,
        original.__qualname__,
        original.__doc__,
        original.__module__,
    )
    assert inspect.getsource(armed) == inspect.getsource(original)
    assert contract_of(Good).hooks["run"].place.line == original.__code__.co_firstlineno


def test_a_bound_method_stored_before_the_first_call_becomes_a_twin_of_the_original() -> None:
    @guard
    class Base:
        def run(self, x: int, y: int = 2, *, z: int = 3) -> int:
            raise NotImplementedError

    offset = 10

    class Good(Base):
        def run(self, x: int, y: int = 2, *, z: int = 3) -> int:
            return x + y + z + offset + len(type(super()).__name__)

    original = body(Good, "run")
    good = Good()
    stored: Any = good.run
    assert stored(1) == 21
    assert stored.__func__.__code__ is original.__code__
    assert (stored(1), stored(1, 1, z=1), good.run(1)) == (21, 18, 21)
    assert body(Good, "run") is original


def test_copies_and_unpickled_instances_are_verified_by_themselves(checked: list[str]) -> None:
    first = PickledGood()
    PickledBase.seen.clear()
    first.x = 5
    copies = [copy.copy(first), copy.deepcopy(first), pickle.loads(pickle.dumps(first))]
    assert [c.x for c in copies] == [5, 5, 5]
    assert [vars(c) for c in copies] == [{"x": 5}] * 3
    assert [c.run(1) for c in copies] == [6, 6, 6]
    assert first.run(1) == 6
    assert PickledBase.seen == ["run"] * 4
    assert pickle.loads(pickle.dumps(first.run))(1) == 6
    assert pickle.loads(pickle.dumps(PickledGood.run)) is PickledGood.run


def _seen(self: Any) -> bool:
    self.seen.append("run")
    return True


@guard
class PickledBase:
    seen: list[str] = []  # noqa: RUF012

    @hook(assumes=_seen)
    def run(self, x: int) -> int:
        raise NotImplementedError


class PickledGood(PickledBase):
    x = 0

    def run(self, x: int) -> int:
        return x + self.x


def test_an_error_can_be_pickled() -> None:
    class Bad(PickledBase):
        def run(self) -> int:  # type: ignore[override]
            return 1

    with pytest.raises(HookCallError) as caught:
        Bad().run()
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), again.diagnostics) == (HookCallError, caught.value.diagnostics)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_verifies_for_itself(checked: list[str]) -> None:
    Base = base(checked)

    class Good(Base):  # type: ignore[misc, valid-type]
        def run(self, x: int) -> Any:
            return x

    good = Good()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, f"{good.run(7)} {checked}".encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 100) == b"7 ['Good']"
    assert checked == []
    assert (good.run(7), checked) == (7, ["Good"])
    os.close(reading)
    os.close(writing)


def test_a_hook_that_calls_itself_is_verified_once(checked: list[str]) -> None:
    Base = base(checked)

    class Counting(Base):  # type: ignore[misc, valid-type]
        def run(self, x: int) -> Any:
            return [x, *self.run(x - 1)] if x else []

    assert Counting().run(3) == [3, 2, 1]
    assert checked == ["Counting"]


def test_a_condition_may_call_the_hook() -> None:
    @guard
    class Base:
        @hook(assumes="self.size() == 3", ensures="result == self.size()")
        def size(self) -> int:
            raise NotImplementedError

    class Good(Base):
        def size(self) -> int:
            return 3

    good = Good()
    assert good.size() == 3
    assert status(good).verified


def test_a_body_that_raises_leaves_its_promise_to_be_kept() -> None:
    @guard
    class Base:
        @hook(ensures="result == 1")
        def run(self, fail: bool = False) -> int:
            raise NotImplementedError

    class Good(Base):
        def run(self, fail: bool = False) -> int:
            if fail:
                raise OSError("no device")
            return 1

    good = Good()
    with pytest.raises(OSError, match="no device"):
        good.run(fail=True)
    assert [a.what for a in status(good).armed] == ["ensures"]
    assert good.run() == 1
    assert status(good).armed == ()


def test_coroutines_generators_and_async_generators() -> None:
    @guard
    class Base:
        @hook(ensures="result == x")
        async def wait(self, x: int) -> int:
            raise NotImplementedError

        @hook(ensures="result == n")
        def count(self, n: int) -> Iterator[int]:
            raise NotImplementedError

        def stream(self, n: int) -> AsyncIterator[int]:
            raise NotImplementedError

    class Good(Base):
        async def wait(self, x: int) -> int:
            await asyncio.sleep(0)
            return x

        def count(self, n: int) -> Any:
            sent = yield 0
            yield sent
            return n

        async def stream(self, n: int) -> Any:
            for i in range(n):
                try:
                    await asyncio.sleep(0)
                    sent = yield i
                    if sent is not None:
                        yield sent
                except KeyError:
                    yield "caught"

    good = Good()
    originals = {name: body(Base, name) for name in ("wait", "count", "stream")}
    assert inspect.iscoroutinefunction(good.wait)
    assert inspect.isgeneratorfunction(good.count)
    assert asyncio.run(good.wait(4)) == 4
    generator = good.count(2)
    assert (next(generator), generator.send("sent")) == (0, "sent")
    with pytest.raises(StopIteration) as stopped:
        next(generator)
    assert stopped.value.value == 2

    assert inspect.isasyncgenfunction(good.stream)

    async def collect() -> list[object]:
        stream: Any = good.stream(3)
        seen = [await stream.asend(None), await stream.asend("sent")]
        seen.append(await stream.athrow(KeyError()))
        seen += [i async for i in stream]
        stream = Good().stream(3)
        seen.append(await stream.__anext__())
        await stream.aclose()
        return seen

    assert asyncio.run(collect()) == [0, "sent", "caught", 1, 2, 0]
    assert status(good).armed == ()
    assert {name: body(Base, name) for name in originals} == originals


def test_slots_without_weak_references(checked: list[str]) -> None:
    @guard
    class Base:
        __slots__ = ("ready",)

        @hook(requires="ready")
        def run(self) -> int:
            raise NotImplementedError

    class Good(Base):
        __slots__ = ("inner",)

        def run(self) -> int:
            return 1

    good: Any = Good()
    with pytest.raises(HookContractError) as caught:
        good.run()
    assert [d.code for d in caught.value.diagnostics] == ["MLA202"]
    good.ready = True
    assert good.run() == 1
    assert status(good).armed == ()
    assert copy.copy(good).run() == 1


def test_super_past_an_instance_that_is_still_armed_counts_as_having_run() -> None:
    @guard
    class Base:
        def plan(self, batch: Batch) -> None:
            raise NotImplementedError

        def prepare(self, batch: Batch) -> None:
            raise NotImplementedError

        @hook(after="plan", phase="prefill")
        def run(self, batch: Batch) -> int:
            raise NotImplementedError

    ran: list[str] = []

    class Parent(Base):
        def plan(self, batch: Batch) -> None:
            ran.append("plan")

        def prepare(self, batch: Batch) -> None:
            ran.append("prepare")

        def run(self, batch: Batch) -> int:
            return 1

    class Child(Parent):
        def plan(self, batch: Batch) -> None:
            ran.append("passed by")

        def prepare(self, batch: Batch) -> None:
            super().plan(batch)
            super().prepare(batch)

    original = body(Parent, "plan")
    child = Child()
    child.prepare(DECODE)
    with pytest.raises(HookContractError) as caught:
        child.run(PREFILL)
    assert [d.code for d in caught.value.diagnostics] == ["MLA403"]
    child.prepare(PREFILL)
    assert child.run(PREFILL) == 1
    assert ran == ["plan", "prepare", "plan", "prepare"]
    assert body(Parent, "plan") is original
    assert status(child).armed == ()


def test_no_instance_is_kept_alive(checked: list[str]) -> None:
    Base = base(checked)

    class Good(Base):  # type: ignore[misc, valid-type]
        def run(self, x: int) -> Any:
            return x

    class Bad(Base):  # type: ignore[misc, valid-type]
        def run(self) -> Any:
            return 1

    original = body(Good, "run")
    gc.collect()
    gc.disable()
    try:
        first, second, third = Good(), Good(), Bad()
        first.run(1)
        with pytest.raises(HookCallError) as caught:
            third.run()
        del caught
        references = [weakref.ref(i) for i in (first, second, third)]
        del first, second, third
        assert [r() for r in references[:2]] == [None, None]
        assert body(Good, "run") is original
        assert status(Good).installed == ()
    finally:
        gc.enable()
    gc.collect()
    assert references[2]() is None


def test_no_class_is_kept_alive(checked: list[str]) -> None:
    Base = base(checked)

    def use() -> weakref.ref[type]:
        class Good(Base):  # type: ignore[misc, valid-type]
            def __init__(self) -> None:
                super().__init__()
                self.held = [self]

            def __setstate__(self, state: Any) -> None:
                self.__dict__.update(state)

            def run(self, x: int) -> Any:
                return x if x else super().run(x)

        Good()
        copy.copy(Good()).run(1)
        verify(Good())
        return weakref.ref(Good)

    def unused() -> weakref.ref[type]:
        class Never(Base):  # type: ignore[misc, valid-type]
            def run(self, x: int) -> Any:
                return super().run(x)

        Never()
        assert status(Never).installed == ("run",)
        return weakref.ref(Never)

    references = [use(), unused()]
    gc.collect()
    assert [reference() for reference in references] == [None, None]


def test_a_subclass_defined_after_the_guard_was_installed(checked: list[str]) -> None:
    Base = base(checked)
    Late = type("Late", (Base,), {"run": lambda self, x: x})
    assert Late().run(1) == 1
    Bad = type("Bad", (Base,), {"run": lambda self: 1})
    with pytest.raises(HookCallError):
        Bad().run()
    assert checked == ["Late", "Bad"]


def test_a_hook_replaced_on_the_instance_is_what_runs(checked: list[str]) -> None:
    Base = base(checked)

    class Good(Base):  # type: ignore[misc, valid-type]
        def run(self, x: int) -> Any:
            return x

    replaced: Any = Good()
    other = Good()
    replaced.run = lambda x: "mine"
    assert (replaced.run(1), other.run(1)) == ("mine", 1)
    assert checked == ["Good"]
    del replaced.run
    assert (replaced.run(2), checked) == (2, ["Good", "Good"])


def test_a_hook_replaced_on_the_class_meanwhile_stays_replaced(checked: list[str]) -> None:
    Base = base(checked)

    class Good(Base):  # type: ignore[misc, valid-type]
        def run(self, x: int) -> Any:
            return x

    good: Any = Good()
    stored = Good().run

    def patched(self: Any, x: int) -> Any:
        return "patched"

    setattr(Good, "run", patched)  # noqa: B010
    assert good.run(1) == "patched"
    assert stored(1) == 1
    unguard_hierarchy(Base)
    assert body(Good, "run") is patched


def test_an_abstract_base_stays_abstract() -> None:
    @guard
    class Base(ABC):
        @abstractmethod
        def run(self) -> int: ...

    class Half(Base):
        pass

    class Whole(Half):
        def run(self) -> int:
            return 1

    with pytest.raises(TypeError, match="abstract"):
        Half()  # type: ignore[abstract]
    assert Whole().run() == 1
    assert inspect.isabstract(Half)


def test_constructors_keep_their_errors_and_signatures() -> None:
    @guard
    class Base:
        def run(self) -> int:
            return 1

    class WithNew(Base):
        def __new__(cls, x: int) -> Any:
            return super().__new__(cls)

    class WithInit(Base):
        def __init__(self, x: int, *, y: int = 0) -> None:
            self.x = x

    with pytest.raises(TypeError, match=r"takes no arguments"):
        Base(1)  # type: ignore[call-arg]
    assert WithNew(1).run() == 1
    assert WithInit(1).x == 1
    assert list(inspect.signature(WithInit).parameters) == ["x", "y"]
    with pytest.raises(TypeError, match="unexpected keyword"):
        WithInit(1, z=2)  # type: ignore[call-arg]
    unguard_hierarchy(Base)
    with pytest.raises(TypeError, match=r"takes no arguments"):
        Base(1)  # type: ignore[call-arg]
    assert WithNew(1).run() == 1


def test_init_subclass_arguments_reach_the_class_that_takes_them() -> None:
    seen: list[tuple[str, int]] = []

    @guard
    class Base:
        def __init_subclass__(cls, *, level: int = 0, **kwargs: Any) -> None:
            super().__init_subclass__(**kwargs)
            seen.append((cls.__name__, level))

        def run(self) -> int:
            return 1

    class Sub(Base, level=3):
        pass

    own = vars(Base)["__init_subclass__"]
    unguard_hierarchy(Base)
    assert vars(Base)["__init_subclass__"] is not own

    class Later(Base, level=4):
        pass

    assert seen == [("Sub", 3), ("Later", 4)]


def test_a_base_under_two_guards_answers_to_both() -> None:
    @guard
    class Upper:
        def run(self, x: int) -> int:
            raise NotImplementedError

    @guard
    class Lower(Upper):
        def run(self, x: int, y: int = 0) -> int:
            raise NotImplementedError

    class Narrow(Lower):
        def run(self, x: int) -> int:  # type: ignore[override]
            return x

    with pytest.raises(HookCallError):
        Narrow().run(1)
    unguard_hierarchy(Lower)
    assert Narrow().run(1) == 1
    unguard_hierarchy(Upper)
    verify_is_pointless = [k for k in vars(Upper) if k.startswith("__init_")]
    assert verify_is_pointless == []
    with pytest.raises(TypeError, match="no guarded base"):
        verify(Narrow)


def test_every_one_of_many_instances_is_verified(checked: list[str]) -> None:
    Base = base(checked)

    class Good(Base):  # type: ignore[misc, valid-type]
        def run(self, x: int) -> Any:
            return x

    original = body(Good, "run")
    assert [Good().run(i) for i in range(1200)] == list(range(1200))
    assert checked == ["Good"] * 1200
    assert body(Good, "run") is original


def test_what_a_wrapper_holds_is_looked_at_after_its_construction() -> None:
    @guard
    class Base:
        def run(self) -> int:
            raise NotImplementedError

        @hook(optional=True)
        def probe(self) -> None:
            return None

    class Leaf(Base):
        def run(self) -> int:
            return 1

        def probe(self) -> None:
            return None

    class Wrapper(Base):
        def __init__(self) -> None:
            self.early = self.run()
            self.inner = Leaf()

        def run(self) -> int:
            return 2

    wrapper = Wrapper()
    with pytest.raises(HookContractError) as caught:
        wrapper.run()
    assert [d.code for d in caught.value.diagnostics] == ["MLA301"]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="every instance has a dict from the start")
def test_looking_inside_does_not_make_python_keep_a_dict() -> None:
    @guard
    class Base:
        @hook(requires="ready")
        def run(self, x: int) -> int:
            return x

    class Plain(Base):
        def __init__(self) -> None:
            self.ready = True

    plain = Plain()
    size = sys.getsizeof(plain)
    plain.run(1)
    verify(plain)
    delegate(plain, "run", 1)
    assert not any(isinstance(r, dict) for r in gc.get_referents(plain))
    assert sys.getsizeof(plain) == size


def test_a_class_guarded_twice_is_an_error() -> None:
    @guard
    class Base:
        def run(self) -> int:
            return 1

    with pytest.raises(ValueError, match="Base is guarded already"):
        guard(Base)


def test_a_function_of_the_guard_kept_beyond_its_end_does_nothing() -> None:
    @guard
    class Base:
        def run(self) -> int:
            return 1

    kept = vars(Base)["__init__"]
    unguard_hierarchy(Base)
    setattr(Base, "__init__", kept)  # noqa: B010
    instance = Base()
    assert body(Base, "run") is vars(Base)["run"]
    assert (instance.run(), status(instance).installed) == (1, ())


def test_a_stand_in_of_a_verified_class_passes_every_kind_of_argument_on() -> None:
    class Base:
        @hook(requires="ready", phase="prefill")
        def run(self, *args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError

    guard_hierarchy(Base, profile={"own_protocol": {"Cls": ["run"]}})

    def plain(self: Any, a: int, b: int = 2) -> Any:
        return a, b

    def only(self: Any, a: int, /, b: int = 2, *, c: int = 3, d: int) -> Any:
        return a, b, c, d

    def every(me: Any, a: int, /, b: int = 2, *args: int, c: int = 3, **more: int) -> Any:
        return a, b, args, c, more

    def keywords(self: Any, **id: Any) -> Any:
        return id

    def receiverless(*args: Any) -> Any:
        return args[1:]

    for function, args, kwargs in (
        (plain, (1,), {}),
        (plain, (1,), {"b": 3}),
        (only, (1,), {"d": 4}),
        (only, (1, 5), {"c": 6, "d": 4}),
        (every, (1, 2, 3, 4), {"c": 5, "a": 6, "self": 7}),
        (every, (1,), {}),
        (keywords, (), {"a": 1}),
        (receiverless, (1, 2), {}),
    ):
        cls: Any = type("Cls", (Base,), {"run": function, "ready": True})
        armed, verified, waiting = cls(), cls(), cls()
        want = function(armed, *args, **kwargs)
        for instance in (armed, verified, armed, verified):
            assert instance.run(*args, **kwargs) == want
        assert status(waiting).installed == ("run",)
        stored = cls.run
        assert stored(verified, *args, **kwargs) == want
        del armed, verified, waiting, instance
        gc.collect()
        assert vars(cls)["run"] is function
        assert stored.__code__ is function.__code__
        assert stored(object.__new__(cls), *args, **kwargs) == want


def test_a_hook_of_a_module_that_has_another_id() -> None:
    space: dict[str, Any] = {"id": None, "base": None}
    exec("def run(self, x):\n    return x, id", space)

    @guard
    class Base:
        @hook(requires="ready", phase="prefill")
        def run(self, x: int) -> Any:
            raise NotImplementedError

    cls: Any = type("Cls", (Base,), {"run": space["run"], "ready": 1})
    first, second = cls(), cls()
    assert [i.run(1) for i in (first, second, first, second)] == [(1, None)] * 4


def test_an_init_that_a_decorator_puts_in_later_reports_too(checked: list[str]) -> None:
    Base = base(checked)

    @dataclasses.dataclass
    class Data(Base):  # type: ignore[misc, valid-type]
        x: int = 1

        def run(self, x: int) -> Any:
            return x + self.x

    class Later(Base):  # type: ignore[misc, valid-type]
        def run(self, x: int) -> Any:
            return x

    assert (Data(2).run(1), Later().run(1)) == (3, 1)
    assert checked == ["Data", "Later"]
    unguard_hierarchy(Base)
    assert not hasattr(Data.__init__, "__wrapped__")


def test_attributes_that_are_no_functions(checked: list[str]) -> None:
    class Callable:
        def __call__(self, x: int) -> int:
            return x

    class Root:
        def run(self, x: int) -> Any:
            raise NotImplementedError

        @hook(optional=True)
        def may(self) -> Any:
            raise NotImplementedError

    guard(Root)

    class Partial(Root):
        def _run(self, x: int, y: int) -> Any:
            return x + y

        run = functools.partialmethod(_run, y=1)

    class Object(Root):
        run = Callable()
        may = None  # type: ignore[assignment]

    class Number(Root):
        run = 5  # type: ignore[assignment]

    class Absent(Root):
        run = None  # type: ignore[assignment]

    assert Partial().run(1) == 2
    assert Object().run(1) == 1
    for cls, code in ((Number, "MLA101"), (Absent, "MLA401")):
        with pytest.raises(HookContractError) as caught:
            verify(cls)
        assert [d.code for d in caught.value.diagnostics] == [code]


def test_the_contract_of_a_class_leaves_out_what_the_guard_has_lent_it(checked: list[str]) -> None:
    Base = base(checked)

    class Parent(Base):  # type: ignore[misc, valid-type]
        def run(self, x: int) -> Any:
            return x

    class Child(Parent):
        pass

    waiting, child, armed = Parent(), Child(), Child()
    assert list(contract_of(Child).hooks) == []
    child.run(1)
    armed.run(1)
    assert vars(Child)["run"] is vars(Parent)["run"].__wrapped__
    assert list(contract_of(Child).hooks) == []
    assert list(contract_of(type(waiting)).hooks) == ["run"]


def test_hooks_that_decorators_wrap(checked: list[str]) -> None:
    Base = base(checked)

    def logged(function: Any) -> Any:
        @functools.wraps(function)
        def inner(*args: Any, **kwargs: Any) -> Any:
            return ("logged", function(*args, **kwargs))

        return inner

    class Good(Base):  # type: ignore[misc, valid-type]
        @logged
        def run(self, x: int) -> Any:
            return x

    class Narrow(Base):  # type: ignore[misc, valid-type]
        @logged
        def run(self) -> Any:
            return None

    decorated = body(Good, "run")
    good = Good()
    assert list(inspect.signature(good.run).parameters) == ["x"]
    again = logged(Good.run)
    assert contract_of(type("Copy", (), {"run": again})).hooks["run"].kind == "method"
    assert again(good, 1) == ("logged", ("logged", 1))
    assert good.run(2) == ("logged", 2)
    assert body(Good, "run") is decorated
    assert again(good, 3) == ("logged", ("logged", 3))
    with pytest.raises(HookCallError):
        Narrow().run(1)

    def supplied(function: Any) -> Any:
        @functools.wraps(function)
        def inner(self: Any, x: int) -> Any:
            return function(self, x, "supplied")

        return inner

    class Supplied(Base):  # type: ignore[misc, valid-type]
        @supplied
        def run(self, x: int, more: str) -> Any:
            return more

    assert Supplied().run(1) == "supplied"
    assert checked == ["Good", "Supplied"]


def test_capture_postpones_what_it_must(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def reads_a_tensor(self: Any, forward_mode: str) -> bool:
        read.append(forward_mode)
        return True

    @guard
    class Base:
        @hook(phase="capture", requires="graph", ensures=reads_a_tensor)
        @hook(phase="prefill", requires="planned", assumes=reads_a_tensor)
        def plan(self, forward_mode: str, in_capture: bool = False) -> None:
            raise NotImplementedError

    class Good(Base):
        planned = graph = True

        def plan(self, forward_mode: str, in_capture: bool = False) -> None:
            assert forward_mode

    def armed() -> list[tuple[str, str | None, str]]:
        return [(a.what, a.phase, a.postponed) for a in status(good).armed]

    good = Good()
    with monkeypatch.context() as capturing:
        capturing.setattr("mla_guard.phase.stream_is_capturing", lambda: True)
        capturing.setattr("mla_guard.first_call.stream_is_capturing", lambda: True)
        good.plan("EXTEND")
    late = "a stream was capturing, which no condition may wait on"
    assert (read, armed()) == (
        [],
        [
            ("ensures", "capture", late),
            ("requires", "prefill", "the call came under capture"),
            ("assumes", "prefill", "the call came under capture"),
        ],
    )
    good.plan("DECODE", in_capture=True)
    assert (read, [what for what, _, _ in armed()]) == (["DECODE"], ["requires", "assumes"])
    good.plan("DECODE")
    assert (read, [what for what, _, _ in armed()]) == (["DECODE"], ["requires", "assumes"])
    good.plan("EXTEND", False)
    assert (read, armed()) == (["DECODE", "EXTEND"], [])


def test_what_ran_on_an_instance_before_it_was_guarded_is_not_asked_for() -> None:
    class Base:
        def plan(self) -> None:
            raise NotImplementedError

        @hook(after="plan", requires="planned")
        def run(self) -> int:
            raise NotImplementedError

    class Good(Base):
        def plan(self) -> None:
            self.planned = True

        def run(self) -> int:
            return 1

    existing, unplanned = Good(), Good()
    existing.plan()
    guard_hierarchy(Base)
    assert (existing.run(), copy.copy(existing).run()) == (1, 1)
    with pytest.raises(HookContractError) as caught:
        unplanned.run()
    assert [d.code for d in caught.value.diagnostics] == ["MLA202"]
    with pytest.raises(HookContractError) as caught:
        Good().run()
    assert [d.code for d in caught.value.diagnostics] == ["MLA202", "MLA403"]
    unguard_hierarchy(Base)
