"""The one signature comparison: does this call bind, and does this override keep the promise?

Both questions are put to :meth:`inspect.Signature.bind`; this module only decides which calls to
try and how to say what went wrong. Signatures are compared as *shapes*: names, kinds and whether a
default exists. Annotations and default values play no part.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, TypeAlias

__all__ = [
    "Call",
    "Param",
    "Shape",
    "binding_errors",
    "call_shapes",
    "drift",
    "format_shape",
    "misnamed_positionals",
    "misplaced_positionals",
    "shape_of",
    "signature_of",
    "without_receiver",
]

_Kind = inspect._ParameterKind
POSITIONAL_ONLY = int(_Kind.POSITIONAL_ONLY)
POSITIONAL_OR_KEYWORD = int(_Kind.POSITIONAL_OR_KEYWORD)
VAR_POSITIONAL = int(_Kind.VAR_POSITIONAL)
KEYWORD_ONLY = int(_Kind.KEYWORD_ONLY)
VAR_KEYWORD = int(_Kind.VAR_KEYWORD)
_BY_POSITION = (POSITIONAL_ONLY, POSITIONAL_OR_KEYWORD)
_BY_KEYWORD = (POSITIONAL_OR_KEYWORD, KEYWORD_ONLY)


class Param(NamedTuple):
    """One parameter; ``kind`` is the integer value of :class:`inspect._ParameterKind`."""

    name: str
    kind: int
    required: bool


Shape: TypeAlias = tuple[Param, ...]
"""The parameters of a callable, in order."""


@dataclass(frozen=True, slots=True)
class Call:
    """The arguments of a call: how many by position, which by keyword.

    ``names`` holds, for each positional argument, the variable it was read from (or None);
    ``star`` and ``double_star`` say that ``*x`` or ``**x`` of unknown content was passed too.
    """

    positional: int = 0
    keywords: tuple[str, ...] = ()
    star: bool = False
    double_star: bool = False
    names: tuple[str | None, ...] = ()

    def __str__(self) -> str:
        parts = [
            (self.names[i] if i < len(self.names) else None) or "..."
            for i in range(self.positional)
        ]
        if self.star:
            parts.append("*...")
        parts += [f"{name}=..." for name in self.keywords]
        if self.double_star:
            parts.append("**...")
        return f"({', '.join(parts)})"


def shape_of(signature: inspect.Signature) -> Shape:
    """The shape of ``signature``."""
    return tuple(
        Param(
            p.name,
            int(p.kind),
            p.default is p.empty and int(p.kind) not in (VAR_POSITIONAL, VAR_KEYWORD),
        )
        for p in signature.parameters.values()
    )


@lru_cache(maxsize=4096)
def signature_of(shape: Shape) -> inspect.Signature:
    """The signature with the given shape; every default is ``...``."""
    return inspect.Signature(
        [
            inspect.Parameter(
                p.name,
                _Kind(p.kind),
                default=inspect.Parameter.empty
                if p.required or p.kind in (VAR_POSITIONAL, VAR_KEYWORD)
                else ...,
            )
            for p in shape
        ]
    )


def without_receiver(shape: Shape) -> Shape:
    """``shape`` less the leading ``self`` or ``cls`` (kept where a ``*args`` takes it)."""
    return shape[1:] if shape and shape[0].kind in _BY_POSITION else shape


def format_shape(shape: Shape) -> str:
    """The shape as Python writes it, defaults as ``=...``."""
    return str(signature_of(shape)).replace("=Ellipsis", "=...")


def _capacity(shape: Shape) -> int | None:
    """How many positional arguments fit; None for no limit."""
    if any(p.kind == VAR_POSITIONAL for p in shape):
        return None
    return sum(p.kind in _BY_POSITION for p in shape)


def _takes_any_keyword(shape: Shape) -> bool:
    return any(p.kind == VAR_KEYWORD for p in shape)


def _unused_keyword(*shapes: Shape) -> str:
    taken = {p.name for shape in shapes for p in shape}
    name = "extra_keyword"
    while name in taken:
        name += "_"
    return name


def call_shapes(promise: Shape, against: Shape = ()) -> Iterator[Call]:
    """The calls that tell ``promise`` from any narrower signature.

    Every split between positional and keyword arguments; for each, no optional parameter, each one
    alone, and all together. ``*args`` and ``**kwargs`` are tried with more arguments than
    ``against`` has parameters and with a keyword that neither shape names.
    """
    by_position = [p for p in promise if p.kind in _BY_POSITION]
    most = len(by_position)
    extra = range(1, len(against) + 2) if _capacity(promise) is None else range(0)
    least = sum(p.kind == POSITIONAL_ONLY and p.required for p in by_position)
    for count in [*range(least, most + 1), *(most + e for e in extra)]:
        rest = [p for p in by_position[count:] if p.kind in _BY_KEYWORD]
        rest += [p for p in promise if p.kind == KEYWORD_ONLY]
        needed = tuple(p.name for p in rest if p.required)
        optional = [p.name for p in rest if not p.required]
        choices: list[tuple[str, ...]] = [(), *((name,) for name in optional)]
        if len(optional) > 1:
            choices.append(tuple(optional))
        if _takes_any_keyword(promise):
            choices.append((_unused_keyword(promise, against),))
        for choice in choices:
            yield Call(count, needed + choice)


@lru_cache(maxsize=4096)
def _bindable(shape: Shape) -> inspect.Signature:
    """The signature to bind to, with positional-only names that no keyword can have.

    Before Python 3.13.1 ``bind`` refuses a keyword that ``**kwargs`` takes where an omitted
    positional-only parameter has the same name.
    """
    return signature_of(
        tuple(
            p._replace(name=f"_{index}_positional_only") if p.kind == POSITIONAL_ONLY else p
            for index, p in enumerate(shape)
        )
    )


def _bind(shape: Shape, call: Call) -> inspect.BoundArguments:
    signature = _bindable(shape)
    bind = signature.bind_partial if call.star or call.double_star else signature.bind
    return bind(*range(call.positional), **dict.fromkeys(call.keywords))


@lru_cache(maxsize=4096)
def _fails(shape: Shape, call: Call) -> bool:
    try:
        _bind(shape, call)
    except TypeError:
        return True
    return False


def binding_errors(shape: Shape, call: Call) -> tuple[str, ...]:
    """Why ``call`` cannot bind to ``shape``: every reason, or nothing where it can.

    With ``*x`` or ``**x`` in the call only what can be known is judged: too many explicit
    positional arguments and keywords that nothing takes.
    """
    if not _fails(shape, call):
        return ()
    reasons: list[str] = []
    by_position = [p for p in shape if p.kind in _BY_POSITION]
    capacity = _capacity(shape)
    if capacity is not None and call.positional > capacity:
        left_over = [n for n in call.names[capacity:] if n]
        what = f", {' and '.join(map(repr, left_over))} left over" if left_over else ""
        reasons.append(
            f"takes at most {capacity} positional argument{'s' * (capacity != 1)}, "
            f"{call.positional} passed{what}"
        )
    filled = {p.name for p in by_position[: call.positional]}
    keyword_names = {p.name for p in shape if p.kind in _BY_KEYWORD}
    for name in call.keywords:
        if name in filled and name in keyword_names:
            reasons.append(f"gets {name!r} both by position and by keyword")
        elif name not in keyword_names and not _takes_any_keyword(shape):
            reasons.append(f"does not accept the keyword {name!r}")
    if not (call.star or call.double_star):
        given = filled | set(call.keywords)
        reasons += [
            f"needs {p.name!r}, which is not passed"
            for p in shape
            if p.required and (p.name not in given or p.kind == POSITIONAL_ONLY)
            if p.name not in filled
        ]
    if not reasons:  # pragma: no cover - bind knows a reason that the words above do not
        try:
            _bind(shape, call)
        except TypeError as error:
            reasons.append(str(error))
    return tuple(reasons)


def misnamed_positionals(shape: Shape, call: Call) -> tuple[tuple[str, str], ...]:
    """Positional arguments named as one parameter that land in another: ``(argument, parameter)``.

    Only arguments whose variable has a name of its own are judged, and leading underscores do not
    count.
    """
    by_position = [p.name for p in shape if p.kind in _BY_POSITION]
    return tuple(
        (name, parameter)
        for name, parameter in zip(call.names, by_position, strict=False)
        if name and name.strip("_") != parameter.strip("_")
    )


def misplaced_positionals(promise: Shape, override: Shape, call: Call) -> tuple[str, ...]:
    """Parameters of ``promise`` that ``call`` fills by position and ``override`` has elsewhere."""
    theirs = [p.name for p in promise if p.kind in _BY_POSITION][: call.positional]
    mine = [p.name for p in override if p.kind in _BY_POSITION]
    return tuple(
        name
        for name, at in zip(theirs, mine, strict=False)
        if name in mine and not _same_parameter(name, at)
    )


def _same_parameter(a: str, b: str) -> bool:
    """Whether two names mean one parameter: a leading underscore only marks it as unused."""
    return a.lstrip("_") == b.lstrip("_")


@lru_cache(maxsize=8192)
def drift(promise: Shape, override: Shape) -> tuple[str, ...]:
    """How ``override`` fails to accept what ``promise`` accepts: every reason, or nothing.

    Both shapes come without their receiver. The verdict is that of :meth:`inspect.Signature.bind`
    over :func:`call_shapes`; a positional argument must also land in the parameter of the same
    name. A name that only gains or loses leading underscores is no drift.
    """
    if promise == override:
        return ()
    names = {p.name for p in override}
    aligned = tuple(
        p._replace(name=o.name)
        if o is not None and _same_parameter(p.name, o.name) and p.name not in names
        else p
        for p, o in _aligned(promise, override)
    )
    broken = any(_fails(override, call) for call in call_shapes(aligned, override))
    reasons = _differences(aligned, override)
    if not broken:
        return tuple(r for r, harmful in reasons if harmful)
    return tuple(r for r, _ in reasons) or ("cannot be called as declared",)


def _aligned(promise: Shape, override: Shape) -> Iterator[tuple[Param, Param | None]]:
    for index, parameter in enumerate(promise):
        yield parameter, override[index] if index < len(override) else None


def _differences(promise: Shape, override: Shape) -> list[tuple[str, bool]]:
    """Each difference in words, and whether it harms although every call binds."""
    said: list[tuple[str, bool]] = []
    mine = {p.name: p for p in override}
    theirs = {p.name: p for p in promise}
    my_order = [p.name for p in override if p.kind in _BY_POSITION]
    their_order = [p.name for p in promise if p.kind in _BY_POSITION]
    takes_keywords = _takes_any_keyword(override)
    unlimited = _capacity(override) is None
    renamed: set[str] = set()

    def positional_only(name: str) -> bool:
        return mine[name].kind == POSITIONAL_ONLY and (mine[name].required or not takes_keywords)

    for position, name in enumerate(their_order, start=1):
        at = my_order[position - 1] if position <= len(my_order) else None
        by_keyword = theirs[name].kind in _BY_KEYWORD
        if name in mine:
            if name in my_order:
                moved = my_order.index(name) + 1
                if moved != position:
                    said.append((f"moves {name!r} from position {position} to {moved}", True))
                if by_keyword and positional_only(name):
                    said.append((f"takes {name!r} by position only", False))
            elif at is not None or mine[name].required or not unlimited:
                said.append(
                    (f"takes {name!r} by keyword only (was position {position})", at is not None)
                )
        elif at is not None and at not in theirs:
            renamed.add(at)
            said.append((f"renames {name!r} to {at!r} (position {position})", by_keyword))
        else:
            if not (unlimited and (takes_keywords or not by_keyword)):
                lost = f"drops {name!r} (position {position})"
                if takes_keywords and by_keyword:
                    lost = f"takes {name!r} by keyword only (was position {position})"
                said.append((lost, False))
            if at is not None and theirs[at].kind == KEYWORD_ONLY:
                said.append((f"takes {at!r} at position {position} instead of {name!r}", True))
    for p in promise:
        if p.kind == KEYWORD_ONLY:
            if p.name not in mine:
                if not takes_keywords:
                    said.append((f"drops the keyword-only {p.name!r}", False))
            elif positional_only(p.name):
                said.append((f"takes {p.name!r} by position only", False))
            elif p.name in my_order and _capacity(promise) is None and unlimited:
                position = my_order.index(p.name) + 1
                said.append(
                    (f"takes {p.name!r} at position {position}, where *args is declared", False)
                )
    for p in override:
        if p.required and p.name not in renamed:
            if p.name not in theirs:
                said.append((f"requires {p.name!r}, which the declaration does not have", False))
            elif not theirs[p.name].required:
                said.append((f"requires {p.name!r}, which is optional in the declaration", False))
        elif p.required and p.name in renamed:
            old = their_order[my_order.index(p.name)]
            if not theirs[old].required:
                said.append((f"requires {p.name!r}, where {old!r} is optional", False))
    if _capacity(promise) is None and not unlimited:
        said.append(("takes no further positional arguments (*args)", False))
    if _takes_any_keyword(promise) and not takes_keywords:
        said.append(("takes no further keywords (**kwargs)", False))
    return said


def promised(shape: Shape, *, variadic: bool = True) -> Shape:
    """What a declaration promises: with ``variadic=False``, less its ``*args`` and ``**kwargs``."""
    if variadic:
        return shape
    return tuple(p for p in shape if p.kind not in (VAR_POSITIONAL, VAR_KEYWORD))
