"""Random lives of classes and instances: each call does what it does without the guard."""

from __future__ import annotations

import copy
import gc
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)

from mla_guard import guard, hook, status, unguard_hierarchy
from mla_guard.arming import met


class Batch:
    def __init__(self, mode: str) -> None:
        self.forward_mode = mode


MODES = ("DECODE", "EXTEND", "IDLE")


def hook_of(name: str, owner: list[type[Any]], on: bool) -> Any:
    """A hook that says whose it is and, if ``on``, what the next class says."""

    def run(self: Any, batch: Batch, depth: int = 0) -> list[str]:
        if not on:
            return [name]
        said: list[str] = super(owner[0], self).run(batch, depth=depth + 1)
        return [name, *said]

    return run


class Lives(RuleBasedStateMachine):
    classes = Bundle("classes")
    instances = Bundle("instances")

    @initialize(target=classes)
    def start(self) -> Any:
        self.checked: dict[int, int] = {}
        self.kept: dict[int, int] = {}
        machine = self

        def assumed(self: Any) -> bool:
            machine.checked[id(self)] = machine.checked.get(id(self), 0) + 1
            return True

        def ensured(self: Any, result: list[str]) -> bool:
            machine.kept[id(self)] = machine.kept.get(id(self), 0) + 1
            return bool(result)

        def base() -> Any:
            class Base:
                @hook(phase="prefill", assumes=assumed, ensures=ensured)
                def run(self, batch: Batch, depth: int = 0) -> list[str]:
                    return ["Base"]

            return Base

        self.guarded, bare = guard(base()), base()
        self.bodies: list[tuple[type, dict[str, Any]]] = []
        self.live: dict[int, tuple[Any, Any, set[str]]] = {}
        self.number = 0
        return self.guarded, bare

    @rule(target=classes, above=st.lists(classes, min_size=1, max_size=2), how=st.integers(0, 2))
    def define(self, above: list[Any], how: int) -> Any:
        self.number += 1
        name = f"C{self.number}"
        made = []
        for side in (0, 1):
            owner: list[type[Any]] = []
            body = {} if how == 0 else {"run": hook_of(name, owner, on=how == 2)}
            try:
                owner.append(type(name, tuple(dict.fromkeys(pair[side] for pair in above)), body))
            except TypeError:
                return multiple()
            made.append((owner[0], body))
        self.bodies.append(made[0])
        return made[0][0], made[1][0]

    @rule(target=instances, pair=classes)
    def make(self, pair: Any) -> int:
        return self.keep(pair[0](), pair[1]())

    @rule(target=instances, number=instances)
    def copy(self, number: int) -> Any:
        if number not in self.live:
            return multiple()
        guarded, bare, _ = self.live[number]
        guarded.mark = number  # a copy without a state is made without a word to the class
        return self.keep(copy.copy(guarded), copy.copy(bare))

    def keep(self, guarded: Any, bare: Any) -> int:
        self.number += 1
        self.checked.pop(id(guarded), None)
        self.kept.pop(id(guarded), None)
        self.live[self.number] = (guarded, bare, set())
        return self.number

    @rule(number=instances, mode=st.sampled_from(MODES))
    def call(self, number: int, mode: str) -> None:
        if number not in self.live:
            return
        guarded, bare, seen = self.live[number]
        assert guarded.run(Batch(mode)) == bare.run(Batch(mode))
        seen.add(mode)
        once = int("EXTEND" in seen)
        assert self.checked.get(id(guarded), 0) == self.kept.get(id(guarded), 0) == once
        assert (status(guarded).armed == ()) is bool(once)

    @rule(number=consumes(instances))
    def drop(self, number: int) -> None:
        self.live.pop(number, None)

    @rule()
    def collect(self) -> None:
        gc.collect(1)

    @invariant()
    @precondition(lambda self: hasattr(self, "live"))
    def verified_classes_are_clear(self) -> None:
        armed = {type(guarded) for guarded, _, seen in self.live.values() if "EXTEND" not in seen}
        for guarded, _, _ in self.live.values():
            cls = type(guarded)
            if cls not in armed and met(cls, "run") is None:
                assert not hasattr(cls.run, "__wrapped__")

    def teardown(self) -> None:
        if not hasattr(self, "live"):
            return
        unguard_hierarchy(self.guarded)
        for guarded, bare, _ in self.live.values():
            assert guarded.run(Batch("EXTEND")) == bare.run(Batch("EXTEND"))
        for cls, body in self.bodies:
            assert vars(cls).get("run") is body.get("run")
            assert "__init__" not in vars(cls)


TestLives = Lives.TestCase
TestLives.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
