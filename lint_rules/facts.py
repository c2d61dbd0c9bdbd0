"""What one file says: compact facts, without positions inside a statement, without judgement.

A function is a list of *events* in source order (attribute reads and writes, calls, local
assignments, returns); each event names the path condition under which it happens as an index into
the function's ``conditions``. Expressions are reduced to what linking and judging need.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property, lru_cache
from typing import TypeAlias

import msgspec

__all__ = [
    "And",
    "Attr",
    "Bind",
    "Call",
    "CallEvent",
    "ClassAttr",
    "ClassFacts",
    "Code",
    "Compare",
    "Const",
    "Event",
    "Expr",
    "FileFacts",
    "Function",
    "IfElse",
    "Import",
    "Item",
    "Name",
    "Not",
    "Opaque",
    "Or",
    "Parameter",
    "Read",
    "Return",
    "Seq",
    "Write",
    "dotted",
    "last_name",
    "named",
    "roots_of",
]


class Name(msgspec.Struct, frozen=True, array_like=True, tag="n", gc=False):
    id: str


class Attr(msgspec.Struct, frozen=True, array_like=True, tag=".", gc=False):
    value: Expr
    name: str


class Call(msgspec.Struct, frozen=True, array_like=True, tag="(", gc=False):
    """A call; ``keywords`` pairs names with values, ``star``/``double_star`` say ``*x``/``**x``."""

    func: Expr
    args: tuple[Expr, ...] = ()
    keywords: tuple[tuple[str, Expr], ...] = ()
    star: bool = False
    double_star: bool = False


class Const(msgspec.Struct, frozen=True, array_like=True, tag="k", gc=False):
    """A literal; ``text`` is its ``repr``, of a dict its source."""

    text: str


class Not(msgspec.Struct, frozen=True, array_like=True, tag="!", gc=False):
    value: Expr


class And(msgspec.Struct, frozen=True, array_like=True, tag="&", gc=False):
    items: tuple[Expr, ...]


class Or(msgspec.Struct, frozen=True, array_like=True, tag="|", gc=False):
    items: tuple[Expr, ...]


class Compare(msgspec.Struct, frozen=True, array_like=True, tag="<", gc=False):
    left: Expr
    op: str
    right: Expr


class IfElse(msgspec.Struct, frozen=True, array_like=True, tag="?:", gc=False):
    test: Expr
    then: Expr
    other: Expr


class Seq(msgspec.Struct, frozen=True, array_like=True, tag="[", gc=False):
    """A list, tuple or set display, or the elements that a comprehension produces."""

    items: tuple[Expr, ...]


class Item(msgspec.Struct, frozen=True, array_like=True, tag="i", gc=False):
    """An element of ``value``: by subscript with ``index``, or any one (a loop)."""

    value: Expr
    index: Expr | None = None


class Opaque(msgspec.Struct, frozen=True, array_like=True, tag="?", gc=False):
    """Something not modelled; ``key`` keeps two of them apart, ``values`` are those of a dict."""

    key: int
    values: tuple[Expr, ...] = ()


Expr: TypeAlias = (
    Name | Attr | Call | Const | Not | And | Or | Compare | IfElse | Seq | Item | Opaque
)


class Read(msgspec.Struct, frozen=True, array_like=True, tag="r", gc=False):
    """``value.name`` is read: plainly, or as a probe (``hasattr``, ``getattr`` with default)."""

    value: Expr
    name: str
    line: int
    cond: int
    probe: bool = False
    caught: bool = False


class Write(msgspec.Struct, frozen=True, array_like=True, tag="w", gc=False):
    """``target.name = value``; ``value`` is None where it is not modelled (augmented, unpacked)."""

    target: Expr
    name: str
    value: Expr | None
    line: int
    cond: int
    annotation: tuple[str, ...] = ()


class CallEvent(msgspec.Struct, frozen=True, array_like=True, tag="c", gc=False):
    """A call; ``unpacked`` is into how many targets an assignment takes its result apart, or 0."""

    call: Call
    line: int
    cond: int
    caught: bool = False
    unpacked: int = 0


class Bind(msgspec.Struct, frozen=True, array_like=True, tag="b", gc=False):
    """A local name is assigned."""

    name: str
    value: Expr
    line: int
    cond: int
    annotation: tuple[str, ...] = ()


class Return(msgspec.Struct, frozen=True, array_like=True, tag="ret", gc=False):
    value: Expr
    line: int
    cond: int


Event: TypeAlias = Read | Write | CallEvent | Bind | Return


class Parameter(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """``kind`` as in :class:`inspect._ParameterKind`; ``annotation`` the dotted names in it."""

    name: str
    kind: int
    required: bool
    annotation: tuple[str, ...] = ()
    default: Expr | None = None


class Code(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a function does.

    ``conditions`` holds ``(parent index, expression, fatal)``; index -1 is the empty condition, and
    *fatal* says that an exception is raised where it does not hold.
    """

    events: tuple[Event, ...]
    conditions: tuple[tuple[int, Expr, bool], ...]


@lru_cache(maxsize=1)
def _decoder() -> msgspec.msgpack.Decoder[Code]:
    return msgspec.msgpack.Decoder(Code)


class Function(msgspec.Struct, frozen=True, array_like=True, dict=True):
    """A function or method.

    ``body`` is ``"raise"`` (only raises), ``"trivial"`` (docstring, ``pass`` or a constant
    returned) or ``"code"``. ``encoded`` is its :class:`Code`, decoded when it is asked for, and
    ``names`` the last names of what is called, bound and returned, and of whose methods are called;
    ``stores`` are the attributes of its first parameter that it assigns, ``elsewhere`` those of
    anything else.
    ``decorators`` are dotted names; ``marks`` are those of them that are calls, arguments included.
    ``conditional`` says that the definition stands in an ``if`` or ``try`` of its class body.
    """

    name: str
    line: int
    params: tuple[Parameter, ...]
    returns: tuple[str, ...]
    decorators: tuple[str, ...]
    body: str
    encoded: bytes
    names: tuple[str, ...] = ()
    stores: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()
    generator: bool = False
    marks: tuple[Call, ...] = ()
    conditional: bool = False

    def keep(self, code: Code) -> None:
        """Have at hand what :attr:`encoded` was made of."""
        self.__dict__["code"] = code

    @cached_property
    def code(self) -> Code:
        return _decoder().decode(self.encoded)

    @cached_property
    def events(self) -> tuple[Event, ...]:
        return self.code.events

    @cached_property
    def conditions(self) -> tuple[tuple[int, Expr, bool], ...]:
        return self.code.conditions

    @cached_property
    def calls(self) -> tuple[CallEvent, ...]:
        return tuple(e for e in self.events if type(e) is CallEvent)

    @cached_property
    def passed_on(self) -> dict[str, list[str]]:
        """The locals that calls pass by each keyword."""
        found: dict[str, list[str]] = {}
        for event in self.calls:
            for keyword, value in event.call.keywords:
                if isinstance(value, Name):
                    found.setdefault(keyword, []).append(value.id)
        return found

    @cached_property
    def appended(self) -> list[tuple[Attr, Expr]]:
        """What calls add to a list or set that is an attribute: ``self.x.append(value)``."""
        if {"append", "add"}.isdisjoint(self.names):
            return []
        return [
            (event.call.func.value, event.call.args[0])
            for event in self.calls
            if len(event.call.args) == 1
            and isinstance(event.call.func, Attr)
            and event.call.func.name in {"append", "add"}
            and isinstance(event.call.func.value, Attr)
        ]

    @cached_property
    def writes(self) -> tuple[Write, ...]:
        return tuple(e for e in self.events if type(e) is Write)

    @cached_property
    def binds(self) -> tuple[Bind, ...]:
        return tuple(e for e in self.events if type(e) is Bind)

    @cached_property
    def bound(self) -> dict[str, list[Bind]]:
        """The assignments of each local."""
        found: dict[str, list[Bind]] = {}
        for event in self.binds:
            found.setdefault(event.name, []).append(event)
        return found

    @cached_property
    def returned(self) -> tuple[Return, ...]:
        return tuple(e for e in self.events if type(e) is Return)


class ClassAttr(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A name assigned or declared in a class body; ``value`` is None for a bare annotation."""

    name: str
    line: int
    value: Expr | None
    annotation: tuple[str, ...] = ()


class ClassFacts(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A class; ``qualname`` is dotted inside the file, ``bases`` are dotted names or empty.

    ``marks`` are the decorators that are calls, with those of their keywords that are dicts.
    """

    qualname: str
    line: int
    bases: tuple[str, ...]
    decorators: tuple[str, ...]
    attrs: tuple[ClassAttr, ...]
    methods: tuple[Function, ...]
    marks: tuple[Call, ...] = ()


class Import(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """``local`` stands for ``module`` (``name`` empty) or for ``module.name``.

    ``typing`` marks an import under ``if TYPE_CHECKING:``, which no run executes.
    """

    local: str
    module: str
    name: str
    level: int
    typing: bool = False


class FileFacts(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What one file says; ``flows`` and ``touched`` as :class:`lint_rules.reaching.Flows`.

    ``declares`` pairs names with the classes of which functions declare or build what they name so.
    """

    path: str
    imports: tuple[Import, ...] = ()
    stars: tuple[tuple[str, int], ...] = ()
    aliases: tuple[tuple[str, Expr], ...] = ()
    classes: tuple[ClassFacts, ...] = ()
    functions: tuple[Function, ...] = ()
    flows: tuple[tuple[str, tuple[str, ...]], ...] = ()
    touched: tuple[tuple[str, ...], ...] = ()
    declares: tuple[tuple[str, str], ...] = ()
    error: str = ""
    error_line: int = 0


def named(events: Iterable[Event]) -> frozenset[str]:
    """The last names of what is called, bound and returned, and of whose methods are called."""
    found: set[str] = set()
    for event in events:
        if isinstance(event, CallEvent):
            func = event.call.func
            found.add(last_name(func))
            if isinstance(func, Attr):
                found.add(last_name(func.value))
        elif isinstance(event, (Bind, Return)):
            found.add(last_name(event.value))
    return frozenset(found)


def dotted(expr: Expr) -> str:
    """``a.b.c`` for a chain of plain attributes, the empty string for anything else."""
    parts: list[str] = []
    while isinstance(expr, Attr):
        parts.append(expr.name)
        expr = expr.value
    if not isinstance(expr, Name):
        return ""
    return ".".join([expr.id, *reversed(parts)])


def last_name(expr: Expr) -> str:
    """What a called expression is called by: ``f`` for ``f`` and for ``module.f``."""
    if isinstance(expr, Name):
        return expr.id
    return expr.name if isinstance(expr, Attr) else ""


def roots_of(expr: Expr) -> str:
    """The variable that a chain of attributes, calls and subscripts starts from, or empty."""
    while True:
        if isinstance(expr, (Attr, Item)):
            expr = expr.value
        elif isinstance(expr, Call):
            expr = expr.func
        else:
            return expr.id if isinstance(expr, Name) else ""
