"""Which classes and instances are still to be verified, and what stands in for their hooks."""

from __future__ import annotations

import functools
import weakref
from collections import Counter
from collections.abc import Iterator
from typing import Any

from .book import MISSING, declarations, hook_names, modes_of, resolve
from .contract import BORROWED, attribute_shape, function_of, kind_of, underlying
from .first_call import FirstCall, Record, Watched
from .judge import class_breaches, clauses_of
from .lock import locked, when_free
from .stand_in import StandIn, rebuilt
from .tree import members

__all__ = ["CONSTRUCTING", "STATES", "ClassState", "state_of"]

CONSTRUCTING: set[int] = set()
"""Instances whose ``__init__`` runs."""


class _Installed:
    """A stand-in in a class body. The stand-in keeps it, so that no table keeps the class."""

    __slots__ = ("__weakref__", "attribute", "own", "stand_in")

    def __init__(self, stand_in: StandIn, attribute: Any, own: Any) -> None:
        self.stand_in, self.attribute, self.own = stand_in, attribute, own


class ClassState:
    """What is still to be verified on one class, and on its instances of exactly this class."""

    def __init__(self, cls: type) -> None:
        self._cls = weakref.ref(cls)
        self.verified = self._just_verified = False
        self.wraps = False
        self.instantiated = False
        self.records: dict[int, Record] = {}
        self.installed: dict[str, weakref.ref[_Installed]] = {}
        self.lent: Counter[str] = Counter()
        self._borrowing: set[tuple[ClassState, str]] = set()
        declared = declarations(cls)
        self.clauses = clauses_of(cls)
        self.unbound = tuple(
            name for name, by in declared.items() if by[-1][1].kind in ("static", "class")
        )
        self.modes = modes_of(cls)

    def has_class(self) -> bool:
        """Whether the class itself has not been collected."""
        return self._cls() is not None

    @property
    def cls(self) -> type:
        cls = self._cls()
        assert cls is not None  # a state is only asked while its class is in use
        return cls

    def arm(self, instance: object, *, is_new: bool) -> None:
        """Expect the first calls on an instance.

        What has run on one that is not new is unknown: what must have run first is taken to have.
        """
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
            pending = {
                name: [c for c in clauses if is_new or c.kind != "after"]
                for name, clauses in self.clauses.items()
            }
            self.records[key] = Record(pending, reference)
            self.settle()

    @property
    def hooks(self) -> list[str]:
        """The hooks to verify: the family may have come by some since the state was made."""
        return hook_names(self.cls)

    @staticmethod
    def constructs(instance: object) -> bool:
        """Whether the instance's ``__init__`` runs: what it is to hold may not be there yet."""
        return id(instance) in CONSTRUCTING

    @staticmethod
    def of(cls: type) -> ClassState | None:
        """The state of a class, if it has one."""
        return STATES.get(cls)

    def owner_of(self, name: str) -> type:
        """The class whose body defines a hook."""
        resolved = resolve(self.cls, name)
        return resolved[0] if resolved is not None else self.cls

    def needed(self) -> set[str]:
        """The hooks that have to be intercepted now."""
        names = {name for name, count in self.lent.items() if count}
        if not self.verified:
            return names.union(self.hooks if self.instantiated else self.unbound)
        for record in self.records.values():
            if record.tree:
                return names.union(self.hooks).difference(self.unbound)
            names |= record.watched()
        return names

    def settle(self) -> None:
        """Put stand-ins where they are needed, and the originals back where they are not."""
        needed, before = self.needed(), set(self.installed)
        # Once the class is verified, what stays is of another make.
        for name in before if self._just_verified else before - needed:
            self._remove(name)
        for name in needed - self.installed.keys():
            self._install(name)
        changed = before ^ self.installed.keys()
        if self._borrowing or any(record.awaited() for record in self.records.values()):
            self._borrow()
        if self._just_verified:
            self._just_verified = False
            self.shield()
        elif self.verified:
            for name in changed - needed:
                self._shield(name)
        for cls in descendants(self.cls) if changed else ():
            if (below := STATES.get(cls)) is not None and below.verified:
                for name in changed:
                    below._shield(name)

    def _borrow(self) -> None:
        """Watch hooks that must have run first also where ``super()`` reaches them past this class.

        Only where a method of another name does so; else the class's own stand-in sees every call.
        """
        awaited = {name for record in self.records.values() for name in record.awaited()}
        wanted = {
            (state_of(owner), name) for name in awaited for owner in passed_by(self.cls, name)
        }
        changed = wanted ^ self._borrowing
        for state, name in changed:
            state.lent[name] += 1 if (state, name) in wanted else -1
        self._borrowing = wanted
        for state, _ in changed:
            state.settle()

    def shield(self) -> None:
        """Look at every hook anew: a class above or below may have come or changed."""
        for name in self.hooks:
            self._shield(name)

    def _shield(self, name: str) -> None:
        """Keep a class that is verified clear of the stand-in of a class above it that is not."""
        cls = self.cls
        if name in self.installed or (name in vars(cls) and name not in BORROWED.get(cls, ())):
            return
        above = met(cls, name)
        if above is not None and not is_transparent(cls, name):
            # A diamond below leaves no place for a shield: have the class above verified now.
            if not above.verified and not class_breaches(above.cls):
                above.is_verified()
                above.settle()
            above = None
        needed, shielded = above is not None, name in BORROWED.get(cls, ())
        if needed and not shielded:
            resolved = resolve(cls, name)
            assert resolved is not None
            BORROWED.setdefault(cls, set()).add(name)
            type.__setattr__(cls, name, resolved[1])
        elif shielded and not needed:
            BORROWED[cls].discard(name)
            type.__delattr__(cls, name)

    def _install(self, name: str) -> None:
        cls = self.cls
        resolved = resolve(cls, name)
        if resolved is None:
            return
        attribute = resolved[1]
        shape = attribute_shape(attribute)
        if function_of(attribute) is None or shape is None:
            return
        own = vars(cls).get(name, MISSING) if name not in BORROWED.get(cls, ()) else MISSING
        kind = kind_of(attribute)
        target = underlying(attribute)
        inherited = own is MISSING
        run = _inherited(cls, name, kind) if inherited else target
        watched = Watched(self, name, attribute, shape)
        # Once the class is verified only instances with something armed are of interest.
        gate = self.verified and kind == "method" and not self.lent[name]
        stand_in = StandIn(
            target,
            run,
            watched.idle,
            functools.partial(FirstCall, watched),
            armed=self.records if gate else None,
        )
        placed = rebuilt(attribute, stand_in.function)
        if inherited:
            BORROWED.setdefault(cls, set()).add(name)
        type.__setattr__(cls, name, placed)
        installed = _Installed(stand_in, placed, own)
        vars(stand_in.function)["__mla_installed__"] = installed
        self.installed[name] = weakref.ref(installed)

    def _remove(self, name: str) -> None:
        cls, installed = self.cls, self.installed.pop(name)()
        if installed is None:  # somebody replaced the hook meanwhile, and nobody kept the stand-in
            BORROWED.get(cls, set()).discard(name)
            return
        if installed.own is MISSING:
            BORROWED[cls].discard(name)
        inherited = installed.own is MISSING
        del vars(installed.stand_in.function)["__mla_installed__"]
        installed.stand_in.retire(as_twin=not inherited or is_transparent(cls, name))
        if vars(cls).get(name) is not installed.attribute:
            return  # somebody replaced the hook meanwhile
        if installed.own is MISSING:
            type.__delattr__(cls, name)
        else:
            type.__setattr__(cls, name, installed.own)

    def is_verified(self) -> None:
        """The class is right: expect no more of its instances that wrap nothing."""
        self.verified = self._just_verified = True
        for record in self.records.values():
            instance = record.reference and record.reference()
            if instance is not None and not self.constructs(instance):
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
        self.verified = self._just_verified = True
        self.settle()


def descendants(cls: type) -> Iterator[type[Any]]:
    """The subclasses of a class at any depth, each once."""
    seen: set[type] = {cls}
    waiting: list[type] = [cls]
    while waiting:
        below: type[Any]
        for below in type.__subclasses__(waiting.pop()):
            if below not in seen:
                seen.add(below)
                waiting.append(below)
                yield below


def is_transparent(cls: type, name: str) -> bool:
    """Whether ``cls`` may hold what it inherits without changing what its subclasses find."""
    mine = resolve(cls, name, after=cls)
    for below in descendants(cls):
        found = resolve(below, name, after=cls)
        if mine is None or found is None or found[0] is not mine[0]:
            return False
    return True


def passed_by(cls: type, name: str) -> list[type]:
    """The classes whose ``name`` some method of another name may call through ``super()``."""
    owners = [owner for owner in cls.__mro__ if name in vars(owner)]
    for owner in cls.__mro__:
        for other, attribute in vars(owner).items():
            function = function_of(attribute) if other != name else None
            if function is not None and {"super", name} <= set(function.__code__.co_names):
                return [o for o in owners[1:] if name not in BORROWED.get(o, ())]
    return []


def met(cls: type, name: str) -> ClassState | None:
    """The state of the class above whose stand-in ``cls`` would find for ``name``."""
    for owner in cls.__mro__[1:]:
        if name in vars(owner):
            state = STATES.get(owner)
            return state if state is not None and name in state.installed else None
    return None


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
        if living is None or record is None or record.reference is not dead:
            return
        del living.records[key]
        if living.has_class():
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
