"""A base class's hooks and what they promise, read by import."""

from __future__ import annotations

import dis
import functools
import inspect
import linecache
import re
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar, overload

from .diagnostic import Place
from .drift import Shape, shape_of, without_receiver

__all__ = ["Clause", "ClauseKind", "Contract", "Hook", "HookKind", "contract_of", "hook"]

HookKind = Literal["method", "static", "class", "property"]
ClauseKind = Literal["requires", "assumes", "after", "ensures"]
Condition: TypeAlias = "str | Callable[..., object]"
F = TypeVar("F")

BORROWED: weakref.WeakKeyDictionary[type, set[str]] = weakref.WeakKeyDictionary()
"""Names that the guard put into a class body which itself defines no such hook."""

MARK = "__mla_hook__"
ORIGINAL = "__mla_original__"


@dataclass(frozen=True, slots=True)
class Clause:
    """What a hook's contract adds to its signature.

    ``text`` is the attribute (``requires``), the hook (``after``), the expression or the name of
    the condition (``assumes``, ``ensures``); ``phase`` is the only phase in which it holds, or None
    for every phase. ``check`` is the condition where it was given as a function.
    """

    kind: ClauseKind
    text: str
    phase: str | None = None
    check: Callable[..., object] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Hook:
    """One hook as a base class declares it.

    ``shape`` comes without the receiver. ``required`` says that the declaration has no body to
    inherit (abstract, or it only raises); ``optional`` that callers probe for the hook;
    ``optional_arguments`` are the parameters that a wrapper may drop where the inner hook lacks
    them.
    """

    name: str
    kind: HookKind
    shape: Shape
    required: bool = False
    optional: bool = False
    optional_arguments: tuple[str, ...] = ()
    clauses: tuple[Clause, ...] = ()
    place: Place = field(default=Place("", 0), compare=False)


@dataclass(frozen=True, slots=True)
class Contract:
    """The hooks that one class body declares, by name, in the order of the body."""

    class_name: str
    hooks: Mapping[str, Hook]


class Mark(NamedTuple):
    """What ``@hook`` leaves on a function."""

    optional: bool = False
    optional_arguments: tuple[str, ...] = ()
    clauses: tuple[Clause, ...] = ()

    def joined(self, other: Mark) -> Mark:
        return Mark(
            self.optional or other.optional,
            tuple(dict.fromkeys(self.optional_arguments + other.optional_arguments)),
            tuple(dict.fromkeys(self.clauses + other.clauses)),
        )


def _names(value: str | Iterable[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _conditions(value: Condition | Iterable[Condition]) -> tuple[Condition, ...]:
    return (value,) if isinstance(value, str) or callable(value) else tuple(value)


def mark_of(
    *,
    optional: bool = False,
    optional_arguments: str | Iterable[str] = (),
    phase: str | Iterable[str] | None = None,
    requires: str | Iterable[str] = (),
    assumes: Condition | Iterable[Condition] = (),
    after: str | Iterable[str] = (),
    ensures: Condition | Iterable[Condition] = (),
) -> Mark:
    """The mark that these arguments of :func:`hook` make.

    Raises :class:`SyntaxError` where an expression of ``assumes`` or ``ensures`` is none.
    """
    said: list[tuple[ClauseKind, str, Callable[..., object] | None]] = []
    said += [("requires", name, None) for name in _names(requires)]
    said += [("after", name, None) for name in _names(after)]
    kinds: tuple[tuple[ClauseKind, Any], ...] = (("assumes", assumes), ("ensures", ensures))
    for kind, conditions in kinds:
        for condition in _conditions(conditions):
            if isinstance(condition, str):
                compile(condition, f"<{kind}>", "eval")
                said.append((kind, condition, None))
            else:
                said.append((kind, getattr(condition, "__name__", repr(condition)), condition))
    phases: tuple[str | None, ...] = (None,) if phase is None else _names(phase)
    return Mark(
        optional,
        _names(optional_arguments),
        tuple(Clause(kind, text, p, check) for kind, text, check in said for p in phases),
    )


@overload
def hook(function: F, /) -> F: ...


@overload
def hook(
    *,
    optional: bool = False,
    optional_arguments: str | Iterable[str] = (),
    phase: str | Iterable[str] | None = None,
    requires: str | Iterable[str] = (),
    assumes: Condition | Iterable[Condition] = (),
    after: str | Iterable[str] = (),
    ensures: Condition | Iterable[Condition] = (),
) -> Callable[[F], F]: ...


def hook(function: Any = None, /, **promises: Any) -> Any:
    """Mark a method of a base class as a hook, with what its contract adds to its signature.

    ``optional``
        callers probe for the hook, so a class may lack it, but a wrapper whose inner backend has
        it must expose it.
    ``optional_arguments``
        parameters that a wrapper may drop where the inner hook does not take them.
    ``phase``
        the phases (``"prefill"``, ``"decode"``, ``"capture"`` ...) in which this mark's clauses
        hold; stack marks for clauses of different phases. None: the first call, whatever its phase.
    ``requires``
        attributes that must exist when the hook is called, also dotted.
    ``assumes``, ``ensures``
        what holds before the call, and after it: an expression over ``self``, the hook's arguments
        (and ``result`` in ``ensures``), or a function that takes any of them by name.
    ``after``
        hooks that must have run on the instance before, in the same phase where one is given.

    The function itself is returned, not wrapped; on its own a mark checks nothing.

    Raises :class:`TypeError` for what cannot carry a mark and :class:`SyntaxError` for an
    expression that is none.
    """
    if function is not None:
        return _marked(function, Mark())
    mark = mark_of(**promises)
    return lambda target: _marked(target, mark)


def _marked(target: Any, mark: Mark) -> Any:
    function = function_of(target)
    if function is None:
        raise TypeError(
            f"@hook marks a function, a property or a static or class method: {target!r}"
        )
    earlier = vars(function).get(MARK)
    setattr(function, MARK, mark.joined(earlier) if earlier is not None else mark)
    return target


def name_of(cls: type) -> str:
    """The name of a class in its file, without the functions that it may be defined in."""
    return cls.__qualname__.rpartition("<locals>.")[2]


def plain(attribute: Any) -> Any:
    """What the class body defined where the guard has put a stand-in, else ``attribute``."""
    try:
        stand_in, original = vars(attribute)[ORIGINAL]
    except (TypeError, KeyError):
        return attribute
    # functools.wraps copies the mark to whatever wraps a stand-in: only the stand-in itself counts.
    return plain(original) if stand_in is attribute else attribute


def function_of(attribute: Any) -> FunctionType | None:
    """The function behind a class attribute, decorators that name what they wrap seen through."""
    attribute = underlying(attribute)
    if not callable(attribute) or isinstance(attribute, type):
        return None
    innermost = inspect.unwrap(plain(attribute))
    return innermost if isinstance(innermost, FunctionType) else None


def underlying(attribute: Any) -> Any:
    """What runs when a class attribute is called or read, without what finds its receiver."""
    attribute = plain(attribute)
    if isinstance(attribute, (staticmethod, classmethod)):
        return attribute.__func__
    if isinstance(attribute, property):
        return attribute.fget
    return attribute.func if isinstance(attribute, functools.cached_property) else attribute


def kind_of(attribute: Any) -> HookKind:
    """How a class attribute is called."""
    attribute = plain(attribute)
    if isinstance(attribute, staticmethod):
        return "static"
    if isinstance(attribute, classmethod):
        return "class"
    if isinstance(attribute, (property, functools.cached_property)):
        return "property"
    return "method"


def real_signature(function: Callable[..., Any]) -> inspect.Signature:
    """The signature that a call of ``function`` meets.

    A decorator's function that passes everything on is seen through; one with parameters of its own
    is what is called, whatever :func:`functools.wraps` says of it. Raises :class:`ValueError` or
    :class:`TypeError` where there is no signature to be had.
    """
    while hasattr(function, "__wrapped__"):
        code = getattr(function, "__code__", None)
        anything = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
        if code is not None and code.co_flags & anything != anything:
            break
        function = plain(function.__wrapped__)
    return inspect.signature(function, follow_wrapped=False)


def attribute_shape(attribute: Any) -> Shape | None:
    """The parameters of a class attribute less its receiver; None where nothing is known."""
    attribute = plain(attribute)
    kind = kind_of(attribute)
    if kind == "property":
        return ()
    target = attribute.__func__ if kind in ("static", "class") else attribute
    if not isinstance(target, FunctionType) and function_of(target) is None:
        return None
    try:
        shape = shape_of(real_signature(plain(target)))
    except (TypeError, ValueError):
        return None
    return shape if kind == "static" else without_receiver(shape)


def place_of(attribute: Any) -> Place:
    """Where a class attribute's function stands: its ``def``, or the first decorator of it."""
    function = function_of(attribute)
    if function is None:
        return Place("<unknown>", 0)
    return Place(function.__code__.co_filename, function.__code__.co_firstlineno)


_STATEMENT = re.compile(r"\s*(?:(?:async\s+)?def|class)\s+(?P<name>\w+)")


def at_name(place: Place, name: str) -> Place:
    """The place of the name in a statement ``def`` or ``class`` that starts at ``place``.

    Reads the source, so only what is shown to people is asked for it.
    """
    linecache.checkcache(place.path)
    for line in range(place.line, place.line + 50):
        found = _STATEMENT.match(linecache.getline(place.path, line))
        if found is not None:
            is_it = found["name"] == name
            return Place(place.path, line, found.start("name") + 1) if is_it else place
    return place


_NOT_IN_ONE_RAISE = ("STORE", "POP_TOP", "JUMP", "POP_JUMP", "FOR_ITER", "YIELD", "RETURN_V")


@functools.lru_cache(maxsize=4096)
def only_raises(code: CodeType) -> bool:
    """Whether a body is one ``raise`` (after its docstring)."""
    names = [instruction.opname for instruction in dis.get_instructions(code)]
    if names.count("RAISE_VARARGS") != 1:
        return False
    if "RETURN_GENERATOR" in names:  # how a coroutine starts, since Python 3.11
        names = names[names.index("RETURN_GENERATOR") + 2 :]
    end = names.index("RAISE_VARARGS")
    return set(names[end + 1 :]) <= {"CALL_INTRINSIC_1", "RERAISE"} and not any(
        name.startswith(_NOT_IN_ONE_RAISE) for name in names[:end]
    )


def hook_of(name: str, attribute: Any) -> Hook | None:
    """The hook that a class attribute declares, or None where it is no function of any kind."""
    function, shape = function_of(attribute), attribute_shape(attribute)
    if function is None or shape is None:
        return None
    mark: Mark = vars(function).get(MARK) or Mark()
    abstract = bool(getattr(plain(attribute), "__isabstractmethod__", False))
    return Hook(
        name,
        kind_of(attribute),
        shape,
        required=(abstract or only_raises(function.__code__)) and not mark.optional,
        optional=mark.optional,
        optional_arguments=mark.optional_arguments,
        clauses=mark.clauses,
        place=place_of(attribute),
    )


def is_marked(attribute: Any) -> bool:
    """Whether ``@hook`` was applied."""
    function = function_of(attribute)
    return function is not None and MARK in vars(function)


def contract_of(cls: type) -> Contract:
    """The hooks that the body of ``cls`` declares.

    Every public method, static or class method and property is a hook, and so is a private one
    that ``@hook`` marks. A hook without a body to inherit, abstract or with a ``raise`` as its only
    statement, is required unless it is marked optional.
    """
    hooks: dict[str, Hook] = {}
    for name, attribute in vars(cls).items():
        if name in BORROWED.get(cls, ()):
            continue
        if not name.startswith("_") or (not name.startswith("__") and is_marked(attribute)):
            declared = hook_of(name, attribute)
            if declared is not None:
                hooks[name] = declared
    return Contract(name_of(cls), hooks)
