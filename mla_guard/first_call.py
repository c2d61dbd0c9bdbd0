"""What happens around a call of a hook that is not verified yet."""

from __future__ import annotations

import os
from types import TracebackType
from typing import TYPE_CHECKING, Any

from .book import MISSING
from .caller import caller
from .clauses import bound_arguments, broken
from .contract import Clause, at_name, kind_of, name_of, place_of, underlying
from .diagnostic import Diagnostic
from .drift import Call, Shape, binding_errors
from .errors import refuse
from .judge import class_breaches, held_to
from .lock import locked
from .mode import mode
from .phase import CAPTURE, PhaseReader
from .torch_state import stream_is_capturing
from .tree import tree_breaches
from .words import call_mismatch

if TYPE_CHECKING:
    from .arming import ClassState

__all__ = ["FirstCall", "Record", "Watched"]

_CHECKING: set[int] = set()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_CHECKING.clear)


class Record:
    """What is still to be verified on one instance.

    ``pending`` holds the clauses by hook; ``tree`` says that what the instance wraps has not been
    looked at; ``ran`` the hooks that ran, with their phases; ``postponed`` why a due clause was put
    off.
    """

    __slots__ = ("_awaited", "pending", "postponed", "ran", "reference", "tree")

    def __init__(self, pending: dict[str, list[Clause]], reference: Any) -> None:
        self.pending, self.reference = pending, reference
        self.tree = True
        self.ran: set[tuple[str, str | None]] = set()
        self.postponed: dict[Clause, str] = {}
        self._awaited = self._what_must_have_run()

    def set_pending(self, name: str, clauses: list[Clause]) -> None:
        """Leave these clauses to be verified on a hook."""
        self.pending[name] = clauses
        self._awaited = self._what_must_have_run()

    def watched(self) -> set[str]:
        """The hooks whose calls matter to this instance."""
        names = {name for name, clauses in self.pending.items() if clauses}
        return names | self.awaited()

    def awaited(self) -> set[str]:
        """The hooks that must have run before some other."""
        return self._awaited

    def _what_must_have_run(self) -> set[str]:
        return {c.text for cs in self.pending.values() for c in cs if c.kind == "after"}


class Watched:
    """A hook of one class while a stand-in has its place."""

    __slots__ = ("attribute", "called", "kind", "name", "phase", "shape", "state")

    def __init__(self, state: ClassState, name: str, attribute: Any, shape: Shape) -> None:
        self.state, self.name, self.attribute, self.shape = state, name, attribute, shape
        self.kind = kind_of(attribute)
        self.called = self.kind != "property"
        self.phase = PhaseReader(shape, state.modes)

    def idle(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether this call has nothing to do with what is still armed.

        On the path of every call while something else of the class is armed, and without the lock:
        what it reads is replaced as a whole, and a verdict that comes a moment too late is right.
        """
        state = self.state
        if not state.verified or not args or state.lent[self.name]:
            return False
        record = state.records.get(id(args[0]))
        if record is None:
            return True
        if record.tree:
            return False
        waiting, awaited = record.pending.get(self.name), self.name in record.awaited()
        if not waiting and not awaited:
            return True
        phase = self.phase(args, kwargs)
        if phase == CAPTURE or (awaited and (self.name, phase) not in record.ran):
            return False
        return not any(c.phase is None or c.phase == phase for c in waiting or ())


class FirstCall:
    """The checks before and after one call; a context whose value takes the result."""

    __slots__ = (
        "_args",
        "_arguments",
        "_hook",
        "_instance",
        "_kept",
        "_kwargs",
        "_phase",
        "_promised",
        "_record",
        "_state",
    )

    def __init__(self, hook: Watched, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._hook, self._state = hook, hook.state
        self._args, self._kwargs = args, kwargs
        self._record: Record | None = None
        self._kept = False
        self._phase: str | None = None
        self._arguments: dict[str, Any] = {}
        self._promised: list[Clause] = []

    def __enter__(self) -> FirstCall:
        state, kind = self._state, self._hook.kind
        self._instance = self._args[0] if self._args and kind in ("method", "property") else None
        if self._instance is not None:
            about = type(self._instance)
            self._record = state.records.get(id(self._instance))
        else:
            about = self._args[0] if kind == "class" and self._args else state.cls
        if about is not state.cls:  # a call of super() from below
            self._note(about)
            return self
        if state.verified and self._record is None:
            return self
        with locked():
            key = id(self._instance if self._instance is not None else state)
            if key in _CHECKING:  # a condition that is being checked has called the hook
                self._record = None
                return self
            _CHECKING.add(key)
            try:
                self._check()
            finally:
                _CHECKING.discard(key)
        return self

    def __call__(self, result: Any) -> None:
        """Check what the hook ensures."""
        if self._promised:
            breaches = self._broken(self._promised, result)
            if breaches:
                refuse(breaches, mode=mode(), called=self._hook.called)
        self._kept = True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        record = self._record
        if record is None:
            return
        with locked():
            if self._kept:
                record.ran.add((self._hook.name, self._phase))
            else:
                name = self._hook.name
                record.set_pending(name, [*record.pending.get(name, ()), *self._promised])
            self._state.drop_settled()
            self._state.settle()

    def _note(self, about: type) -> None:
        """A hook that must have run first runs, reached past the stand-in of the class itself."""
        self._record = None
        state = self._state.of(about)
        record = state.records.get(id(self._instance)) if state is not None else None
        if state is not None and record is not None and self._hook.name in record.awaited():
            self._state, self._record = state, record
            self._phase = self._hook.phase(self._args, self._kwargs)

    def _check(self) -> None:
        state, record, name = self._state, self._record, self._hook.name
        found = [] if state.verified else class_breaches(state.cls)
        unbound = self._call_breaches()
        found += unbound
        looks_inside = record is not None and record.tree and not state.constructs(self._instance)
        if looks_inside:
            found += tree_breaches(self._instance, hook=name)
        claimed: list[Clause] = []
        if record is not None and name in record.watched() and not unbound:
            target = underlying(self._hook.attribute)
            self._arguments = bound_arguments(target, self._args, self._kwargs)
            self._arguments.pop(next(iter(self._arguments)), None)
            self._phase = self._hook.phase(self._args, self._kwargs)
            claimed = self._due(record)
            found += self._broken(claimed)
        if found:
            refuse(found, mode=mode(), called=self._hook.called)
        if not state.verified:
            state.is_verified()
        if record is not None:
            record.tree = record.tree and not looks_inside
            waiting = record.pending.get(name, [])
            record.set_pending(name, [c for c in waiting if c not in claimed])
        self._promised = [c for c in claimed if c.kind == "ensures"]
        state.settle()

    def _due(self, record: Record) -> list[Clause]:
        """The clauses to check on this call; for those that have to wait it is noted why."""
        due: list[Clause] = []
        for clause in record.pending.get(self._hook.name, ()):
            if self._phase == CAPTURE and clause.phase != CAPTURE:
                record.postponed[clause] = "the call came under capture"
            elif clause.phase not in (None, self._phase):
                continue
            elif clause.kind in ("assumes", "ensures") and stream_is_capturing():
                record.postponed[clause] = "a stream was capturing, which no condition may wait on"
            else:
                due.append(clause)
        return due

    def _broken(self, clauses: list[Clause], result: Any = MISSING) -> list[Diagnostic]:
        cls, record = self._state.cls, self._record
        found = (
            (clause, breach)
            for clause in clauses
            if (clause.kind == "ensures") != (result is MISSING)
            and (
                breach := broken(
                    clause,
                    self._instance,
                    self._arguments,
                    symbol=f"{name_of(cls)}.{self._hook.name}",
                    place=at_name(place_of(self._hook.attribute), self._hook.name),
                    ran=record.ran if record is not None else (),
                    result=result,
                )
            )
            is not None
        )
        return [held_to(breach, cls, self._hook.name, clause) for clause, breach in found]

    def _call_breaches(self) -> list[Diagnostic]:
        """Whether the call itself binds; without a receiver Python says so better."""
        shape, kind = self._hook.shape, self._hook.kind
        if kind != "static" and not self._args:
            return []
        call = Call(len(self._args) - (kind != "static"), tuple(self._kwargs))
        if not (reasons := binding_errors(shape, call)):
            return []
        name, place = caller()
        return [
            call_mismatch(
                caller=name,
                place=place,
                callee=f"{name_of(self._state.owner_of(self._hook.name))}.{self._hook.name}",
                shape=shape,
                called=self._hook.name,
                callee_place=at_name(place_of(self._hook.attribute), self._hook.name),
                call=call,
                reasons=reasons,
                hint="Pass what the hook accepts, or widen it.",
            )
        ]
