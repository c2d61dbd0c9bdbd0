"""Which classes and instances are still to be verified, and what stands in for their hooks."""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .book import BORROWED, MISSING, declarations, modes_of, resolve
from .caller import caller
from .clauses import bound_arguments, broken
from .contract import Clause, attribute_shape, function_of, kind_of, place_of, plain
from .diagnostic import Diagnostic, Place
from .drift import Call, binding_errors
from .errors import refuse
from .judge import class_breaches
from .mode import mode
from .phase import CAPTURE, phase_of, stream_is_capturing
from .stand_in import Done, StandIn, rebuilt
from .words import call_mismatch

__all__ = ["LOCK", "STATES", "ClassState", "Record", "state_of"]

LOCK = threading.RLock()
_DEAD: deque[tuple[weakref.ref[ClassState], int]] = deque()
_BUSY = 0


def _fresh_lock() -> None:
    """In a forked child the thread that may have held the lock does not exist."""
    global LOCK, _BUSY
    LOCK, _BUSY = threading.RLock(), 0


os.register_at_fork(after_in_child=_fresh_lock)


@contextmanager
def locked() -> Iterator[None]:
    """The guard's lock; on the way out, forget instances that died meanwhile."""
    global _BUSY
    with LOCK:
        _BUSY += 1
        try:
            yield
        finally:
            if _BUSY == 1:
                while _DEAD:
                    reference, key = _DEAD.popleft()
                    if (state := reference()) is not None and state.records.pop(
                        key, None
                    ) is not None:
                        state.settle()
            _BUSY -= 1


class Record:
    """What is still to be verified on one instance.

    ``pending`` holds the clauses by hook; ``tree`` says that what the instance wraps has not been
    looked at; ``ran`` the hooks that ran, with their phases; ``postponed`` why a due clause was put
    off.
    """

    __slots__ = ("pending", "postponed", "ran", "reference", "tree")

    def __init__(self, pending: dict[str, list[Clause]], reference: Any) -> None:
        self.pending, self.reference = pending, reference
        self.tree = True
        self.ran: set[tuple[str, str | None]] = set()
        self.postponed: dict[Clause, str] = {}

    def watched(self) -> set[str]:
        """The hooks whose calls matter to this instance."""
        names = {name for name, clauses in self.pending.items() if clauses}
        names |= {c.text for cs in self.pending.values() for c in cs if c.kind == "after"}
        return names


class _Installed:
    __slots__ = ("attribute", "own", "stand_in")

    def __init__(self, stand_in: StandIn, attribute: Any, own: Any) -> None:
        self.stand_in, self.attribute, self.own = stand_in, attribute, own


class ClassState:
    """What is still to be verified on one class, and on its instances of exactly this class."""

    def __init__(self, cls: type) -> None:
        self._cls = weakref.ref(cls)
        self.verified = False
        self.wraps = False
        self.instantiated = False
        self.records: dict[int, Record] = {}
        self.installed: dict[str, _Installed] = {}
        declared = declarations(cls)
        self.hooks = tuple(declared)
        self.clauses: dict[str, list[Clause]] = {
            name: clauses
            for name, declared_by in declared.items()
            if (clauses := list(dict.fromkeys(c for _, h in declared_by for c in h.clauses)))
        }
        self.unbound = tuple(
            name for name, by in declared.items() if by[-1][1].kind in ("static", "class")
        )
        self.modes = modes_of(cls)

    @property
    def cls(self) -> type:
        cls = self._cls()
        assert cls is not None  # a state is only asked while its class is in use
        return cls

    def arm(self, instance: object) -> None:
        """Expect the first calls on a new instance."""
        with locked():
            if self.verified and not self.wraps and not self.clauses:
                return
            key = id(instance)
            me = weakref.ref(self)
            try:
                reference = weakref.ref(instance, lambda _: _forget(me, key))
            except TypeError:  # __slots__ without __weakref__
                reference = None
            self.instantiated = True
            self.records[key] = Record(
                {name: list(clauses) for name, clauses in self.clauses.items()}, reference
            )
            self.settle()

    def needed(self) -> set[str]:
        """The hooks that have to be intercepted now."""
        if not self.verified:
            return set(self.hooks if self.instantiated else self.unbound)
        names: set[str] = set()
        for record in self.records.values():
            if record.tree:
                return set(self.hooks).difference(self.unbound)
            names |= record.watched()
        return names

    def settle(self) -> None:
        """Put stand-ins where they are needed, and the originals back where they are not."""
        needed = self.needed()
        for name in [n for n in self.installed if n not in needed]:
            self._remove(name)
        for name in needed - self.installed.keys():
            self._install(name)

    def _install(self, name: str) -> None:
        cls = self.cls
        resolved = resolve(cls, name)
        if resolved is None:
            return
        attribute = resolved[1]
        function = function_of(attribute)
        if function is None or attribute_shape(attribute) is None:
            return
        own = vars(cls).get(name, MISSING)
        kind = kind_of(attribute)
        target = _callable_in(attribute)

        @contextmanager
        def first_call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Done]:
            yield from self._first_call(name, kind, target, args, kwargs)

        inherited = own is MISSING
        run = _inherited(cls, name, kind) if inherited else target
        stand_in = StandIn(target, run, first_call)
        placed = rebuilt(attribute, stand_in.function)
        if inherited:
            BORROWED.setdefault(cls, set()).add(name)
        type.__setattr__(cls, name, placed)
        self.installed[name] = _Installed(stand_in, placed, own)

    def _remove(self, name: str) -> None:
        cls, installed = self.cls, self.installed.pop(name)
        if installed.own is MISSING:
            BORROWED[cls].discard(name)
        installed.stand_in.retire(as_twin=installed.own is not MISSING or not cls.__subclasses__())
        if vars(cls).get(name) is not installed.attribute:
            return  # somebody replaced the hook meanwhile
        if installed.own is MISSING:
            type.__delattr__(cls, name)
        else:
            type.__setattr__(cls, name, installed.own)

    def disarm(self) -> None:
        """Put every original back and expect nothing any more."""
        self.records.clear()
        self.verified = True
        self.settle()

    def _first_call(
        self, name: str, kind: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Iterator[Done]:
        cls = self.cls
        instance = args[0] if args and kind in ("method", "property") else None
        about = type(instance) if instance is not None else (args[0] if kind == "class" else cls)
        record = self.records.get(id(instance)) if instance is not None else None
        if about is not cls or (self.verified and record is None):
            yield lambda result: None
            return
        claimed: list[Clause] = []
        phase: str | None = None
        arguments: dict[str, Any] = {}
        with locked():
            found = self._call_breaches(name, target, kind, args, kwargs)
            if not self.verified:
                found = class_breaches(cls) + found
            if record is not None and not found and name in record.watched():
                arguments = bound_arguments(target, args, kwargs)
                arguments.pop(next(iter(arguments)), None)
                phase = phase_of(arguments, self.modes)
                claimed = self._due(record, name, phase)
                found += self._broken(claimed, record, name, instance, arguments)
            if found:
                refuse(found, mode=mode(), called=kind != "property")
            self.verified = True
            if record is not None:
                record.tree = False
                waiting = record.pending.get(name, [])
                record.pending[name] = [c for c in waiting if c not in claimed]
            self.settle()
        promised = [c for c in claimed if c.kind == "ensures"]
        kept = False

        def done(result: Any) -> None:
            nonlocal kept
            breaches = self._broken(promised, record, name, instance, arguments, result)
            if breaches:
                refuse(breaches, mode=mode(), called=kind != "property")
            kept = True

        try:
            yield done
        finally:
            with locked():
                if record is not None:
                    if kept:
                        record.ran.add((name, phase))
                    else:
                        record.pending.setdefault(name, []).extend(promised)
                    if not record.watched() and not record.tree:
                        self.records.pop(id(instance), None)
                self.settle()

    def _due(self, record: Record, name: str, phase: str | None) -> list[Clause]:
        """The clauses to check on this call; those that have to wait are told why."""
        due: list[Clause] = []
        for clause in record.pending.get(name, ()):
            if phase == CAPTURE and clause.phase != CAPTURE:
                record.postponed[clause] = "the call came under capture"
            elif clause.phase not in (None, phase):
                continue
            elif clause.kind in ("assumes", "ensures") and stream_is_capturing():
                record.postponed[clause] = (
                    "a stream was capturing, which a condition must not wait on"
                )
            else:
                due.append(clause)
        return due

    def _broken(
        self,
        clauses: list[Clause],
        record: Record | None,
        name: str,
        instance: object,
        arguments: dict[str, Any],
        result: Any = MISSING,
    ) -> list[Diagnostic]:
        resolved = resolve(self.cls, name)
        place = place_of(resolved[1]) if resolved else Place("<unknown>", 0)
        found = []
        for clause in clauses:
            if (clause.kind == "ensures") == (result is MISSING):
                continue
            breach = broken(
                clause,
                instance,
                arguments,
                symbol=f"{self.cls.__qualname__}.{name}",
                place=place,
                ran=record.ran if record is not None else (),
                result=result,
            )
            if breach is not None:
                found.append(breach)
        return found

    def _call_breaches(
        self, name: str, target: Any, kind: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> list[Diagnostic]:
        resolved = resolve(self.cls, name)
        shape = attribute_shape(resolved[1]) if resolved else None
        if resolved is None or shape is None or (kind != "static" and not args):
            return []
        call = Call(len(args) - (kind != "static"), tuple(kwargs))
        if not (reasons := binding_errors(shape, call)):
            return []
        name_of_caller, place = caller()
        return [
            call_mismatch(
                caller=name_of_caller,
                place=place,
                callee=f"{resolved[0].__qualname__}.{name}",
                shape=shape,
                callee_place=place_of(resolved[1]),
                call=call,
                reasons=reasons,
            )
        ]


STATES: weakref.WeakKeyDictionary[type, ClassState] = weakref.WeakKeyDictionary()


def state_of(cls: type) -> ClassState:
    """The state of a guarded class, made on first use."""
    with LOCK:
        state = STATES.get(cls)
        if state is None:
            state = STATES[cls] = ClassState(cls)
        return state


def _forget(reference: weakref.ref[ClassState], key: int) -> None:
    """Note that an instance died; tidy up at once unless the guard is at work."""
    _DEAD.append((reference, key))
    if LOCK.acquire(blocking=False):
        try:
            if not _BUSY:
                with locked():
                    pass
        finally:
            LOCK.release()


def _callable_in(attribute: Any) -> Any:
    attribute = plain(attribute)
    if isinstance(attribute, (staticmethod, classmethod)):
        return attribute.__func__
    if isinstance(attribute, property):
        return attribute.fget
    return getattr(attribute, "func", attribute) if kind_of(attribute) == "property" else attribute


def _inherited(cls: type, name: str, kind: str) -> Any:
    """What the class would have found without a stand-in of its own."""

    def run(*args: Any, **kwargs: Any) -> Any:
        if kind == "static":
            return getattr(super(cls, cls), name)(*args, **kwargs)
        receiver, *rest = args
        found = getattr(super(cls, receiver), name)
        return found if kind == "property" else found(*rest, **kwargs)

    return run
