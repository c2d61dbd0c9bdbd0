"""A class hierarchy under guard: its classes report their instances until it is taken out again."""

from __future__ import annotations

import functools
import gc
from typing import Any, TypeVar

from .arming import CONSTRUCTING, STATES, descendants, state_of
from .book import MISSING, NAMED, ROOTS, Terms, forget_declarations, notice, roots_of
from .contract import BORROWED, ORIGINAL, name_of, plain
from .delegate import forget_plans
from .lock import locked

__all__ = ["arm_existing", "put_under_guard", "take_out"]

C = TypeVar("C", bound=type)


def put_under_guard(cls: C, terms: Terms) -> C:
    """Guard ``cls`` and all below it, classes to come included.

    Raises :class:`ValueError` for a class that is guarded already.
    """
    with locked():
        if cls in ROOTS:
            raise ValueError(f"{name_of(cls)} is guarded already")
        ROOTS[cls] = terms
        forget_declarations()
        forget_plans()
        _place(cls, "__init_subclass__", _noticing_subclasses(cls))
        family: list[type] = [cls, *descendants(cls)]
        for member in family:
            _adopt(cls, member)
    return cls


def _place(cls: type, name: str, function: Any) -> None:
    """Put a function of the guard into a class body, with what was there before."""
    own = vars(cls).get(name, MISSING)
    vars(function)[ORIGINAL] = (function, own)
    type.__setattr__(cls, name, function)


def _put_back(cls: type, name: str) -> None:
    placed = vars(cls).get(name)
    own = plain(placed)
    if own is placed:
        return  # the guard has put nothing there, or somebody replaced it meanwhile
    if own is MISSING:
        type.__delattr__(cls, name)
    else:
        type.__setattr__(cls, name, own)


def _adopt(base: type, cls: type) -> None:
    """Make a class of the hierarchy report its instances, and arm its static and class hooks."""
    notice(base, cls)
    _make_report(base, cls)
    if cls is not base and not getattr(cls, "__abstractmethods__", None):
        state_of(cls).settle()
    for above in cls.__mro__[1:]:
        if BORROWED.get(above) and STATES[above].verified:
            STATES[above].shield()  # a diamond may not meet what a class above shields itself with


def _make_report(base: type, cls: type) -> None:
    """Have a class body's own ways of making an instance report it."""
    for name, make in (("__init__", _reporting_init), ("__setstate__", _reporting_setstate)):
        own = vars(cls).get(name)
        if (own is not None or cls is base) and plain(own) is own:
            _place(cls, name, make(cls))


def _noticing_subclasses(base: type[Any]) -> Any:
    own = vars(base).get("__init_subclass__", MISSING)

    def __init_subclass__(cls: type[Any], /, **kwargs: Any) -> None:
        if own is MISSING:
            super(base, cls).__init_subclass__(**kwargs)
        else:
            own.__get__(None, cls)(**kwargs)
        with locked():
            if base in ROOTS:
                _adopt(base, cls)
                for other in descendants(base):  # a decorator may have given one an __init__ since
                    _make_report(base, other)

    return classmethod(__init_subclass__)


def arm_existing(base: type) -> None:
    """Expect first calls also on the instances that exist already."""
    family = {base, *descendants(base)}
    for found in gc.get_objects():
        if type(found) in family:
            state_of(type(found)).arm(found, is_new=False)


def _report(instance: object, *, is_new: bool) -> None:
    if roots_of(type(instance)):  # else somebody kept a function of the guard beyond its end
        state_of(type(instance)).arm(instance, is_new=is_new)


def _reporting_init(cls: type[Any]) -> Any:
    own: Any = vars(cls).get("__init__")
    if own is None:

        def __init__(self: Any, /, *args: Any, **kwargs: Any) -> None:
            following = super(cls, self).__init__
            if getattr(following, "__objclass__", None) is object:
                # object.__init__ rejects arguments only where neither it nor __new__ is overridden.
                if (args or kwargs) and vars(object)["__new__"] is type(self).__new__:
                    raise TypeError(f"{type(self).__name__}() takes no arguments")
                return
            following(*args, **kwargs)

    else:
        __init__ = own

    @functools.wraps(__init__)
    def reporting(self: Any, /, *args: Any, **kwargs: Any) -> None:
        key = id(self)
        if key in CONSTRUCTING:
            __init__(self, *args, **kwargs)
            return
        CONSTRUCTING.add(key)
        try:
            _report(self, is_new=True)
            __init__(self, *args, **kwargs)
        finally:
            CONSTRUCTING.discard(key)

    return reporting


def _reporting_setstate(cls: type[Any]) -> Any:
    own = vars(cls).get("__setstate__")

    def __setstate__(self: Any, state: Any) -> None:
        _report(self, is_new=False)  # a copy, or out of a pickle
        if own is not None:
            own(self, state)
        elif hasattr(super(cls, self), "__setstate__"):
            super(cls, self).__setstate__(state)
        else:
            attributes, slots = state if isinstance(state, tuple) else (state, None)
            if attributes:
                vars(self).update(attributes)
            for name, value in (slots or {}).items():
                setattr(self, name, value)

    return __setstate__


def take_out(base: type) -> None:
    """Restore every class below a guarded base exactly, but for what another guard still holds."""
    with locked():
        family: list[type] = [base, *descendants(base)]
        for cls in family:
            if (state := STATES.get(cls)) is not None:
                state.disarm()
        for cls in family:
            STATES.pop(cls, None)
        del ROOTS[base]
        NAMED.pop(base, None)
        forget_declarations()
        forget_plans()
        _put_back(base, "__init_subclass__")
        for cls in family:
            if not roots_of(cls):
                _put_back(cls, "__init__")
                _put_back(cls, "__setstate__")
