"""Which classes and instances are still to be verified, and what stands in for their hooks."""

from __future__ import annotations

import functools
import weakref
from typing import Any

from .book import BORROWED, MISSING, declarations, modes_of, resolve
from .contract import attribute_shape, function_of, kind_of, underlying
from .first_call import FirstCall, Record
from .judge import clauses_of
from .lock import locked, when_free
from .stand_in import StandIn, rebuilt
from .tree import members

__all__ = ["CONSTRUCTING", "STATES", "ClassState", "state_of"]

CONSTRUCTING: set[int] = set()
"""Instances whose ``__init__`` runs."""


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
        self.clauses = clauses_of(cls)
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
                reference = weakref.ref(instance, functools.partial(_forget, me, key))
            except TypeError:  # __slots__ without __weakref__
                reference = None
            self.instantiated = True
            self.records[key] = Record(
                {name: list(clauses) for name, clauses in self.clauses.items()}, reference
            )
            self.settle()

    def owner_of(self, name: str) -> type:
        """The class whose body defines a hook."""
        resolved = resolve(self.cls, name)
        return resolved[0] if resolved is not None else self.cls

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
        target = underlying(attribute)
        inherited = own is MISSING
        run = _inherited(cls, name, kind) if inherited else target
        stand_in = StandIn(target, run, functools.partial(FirstCall, self, name, attribute))
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

    def is_verified(self) -> None:
        """The class is right: expect no more of its instances that wrap nothing."""
        self.verified = True
        for record in self.records.values():
            instance = record.reference and record.reference()
            if instance is not None and id(instance) not in CONSTRUCTING:
                record.tree = bool(members(instance))
                self.wraps = self.wraps or record.tree
        self.drop_settled()

    def drop_settled(self) -> None:
        """Forget instances on which nothing is left to verify."""
        for key in [k for k, r in self.records.items() if not r.tree and not r.watched()]:
            del self.records[key]

    def disarm(self) -> None:
        """Put every original back and expect nothing any more."""
        self.records.clear()
        self.verified = True
        self.settle()


STATES: weakref.WeakKeyDictionary[type, ClassState] = weakref.WeakKeyDictionary()


def state_of(cls: type) -> ClassState:
    """The state of a guarded class, made on first use."""
    with locked():
        state = STATES.get(cls)
        if state is None:
            state = STATES[cls] = ClassState(cls)
        return state


def _forget(state: weakref.ref[ClassState], key: int, dead: weakref.ref[object]) -> None:
    def forget() -> None:
        living = state()
        record = living.records.get(key) if living is not None else None
        if living is not None and record is not None and record.reference is dead:
            del living.records[key]
            living.settle()

    when_free(forget)


def _inherited(cls: type, name: str, kind: str) -> Any:
    """What the class would have found without a stand-in of its own."""

    def run(*args: Any, **kwargs: Any) -> Any:
        if kind == "static":
            return getattr(super(cls, cls), name)(*args, **kwargs)
        receiver, *rest = args
        found = getattr(super(cls, receiver), name)
        return found if kind == "property" else found(*rest, **kwargs)

    return run
