"""The signature comparison against real calls: each of 220 small ones against 412.

What a function accepts is found by calling it with every call of up to three positional arguments
and any of four keywords; neither :mod:`inspect` nor the code under test takes part.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mla_guard.drift import (
    KEYWORD_ONLY,
    POSITIONAL_ONLY,
    POSITIONAL_OR_KEYWORD,
    VAR_KEYWORD,
    VAR_POSITIONAL,
    Call,
    Param,
    Shape,
    binding_errors,
    call_shapes,
    drift,
    format_shape,
    misnamed_positionals,
    promised,
    shape_of,
    signature_of,
    without_receiver,
)

BY_POSITION = (POSITIONAL_ONLY, POSITIONAL_OR_KEYWORD)
KEYWORDS = ("a", "b", "c", "z")
CALLS = [
    Call(count, names)
    for count in range(4)
    for size in range(len(KEYWORDS) + 1)
    for names in itertools.combinations(KEYWORDS, size)
]


def shapes(names: tuple[str, str]) -> Iterator[Shape]:
    """Every signature of at most two named parameters, with and without ``*args``, ``**kwargs``."""
    kinds = (POSITIONAL_ONLY, POSITIONAL_OR_KEYWORD, KEYWORD_ONLY)
    for size in range(3):
        for order in itertools.permutations(names, size):
            for chosen in itertools.combinations_with_replacement(kinds, size):
                for required in itertools.product((True, False), repeat=size):
                    named = tuple(map(Param, order, chosen, required))
                    positional = [p.required for p in named if p.kind in BY_POSITION]
                    if positional == sorted(positional, reverse=True):
                        for args, kwargs in itertools.product((True, False), repeat=2):
                            yield with_variadics(named, args, kwargs)


def with_variadics(named: Shape, args: bool, kwargs: bool) -> Shape:
    by_position = tuple(p for p in named if p.kind in BY_POSITION)
    rest = named[len(by_position) :]
    star = (Param("args", VAR_POSITIONAL, False),) if args else ()
    return by_position + star + rest + ((Param("kwargs", VAR_KEYWORD, False),) if kwargs else ())


def real_function(shape: Shape) -> Callable[..., Any]:
    """A function with that signature, written out as source."""
    parts: list[str] = []
    for index, p in enumerate(shape):
        before = shape[index - 1].kind if index else None
        if before == POSITIONAL_ONLY != p.kind:
            parts.append("/")
        if p.kind == KEYWORD_ONLY and before not in (KEYWORD_ONLY, VAR_POSITIONAL):
            parts.append("*")
        stars = {VAR_POSITIONAL: "*", VAR_KEYWORD: "**"}.get(p.kind, "")
        optional = not p.required and not stars
        parts.append(f"{stars}{p.name}{'=None' if optional else ''}")
    if shape and shape[-1].kind == POSITIONAL_ONLY:
        parts.append("/")
    function: Callable[..., Any] = eval(f"lambda {', '.join(parts)}: None")
    return function


def accepted(shape: Shape) -> int:
    """The calls of CALLS that really work, as a bit set."""
    function = real_function(shape)
    bits = 0
    for index, call in enumerate(CALLS):
        try:
            function(*range(call.positional), **dict.fromkeys(call.keywords))
        except TypeError:
            continue
        bits |= 1 << index
    return bits


def excused(promise: Shape, override: Shape) -> int:
    """Calls that nobody makes: a keyword that ``**kwargs`` would take names a new parameter.

    ``(*args, **kwargs)`` accepts ``f(1, a=2)``; ``(a, *args, **kwargs)`` is a fair override of it.
    """
    by_keyword = (POSITIONAL_OR_KEYWORD, KEYWORD_ONLY)
    new = {p.name for p in override if p.kind == POSITIONAL_OR_KEYWORD}
    new -= {p.name for p in promise if p.kind in by_keyword}
    return sum(1 << i for i, call in enumerate(CALLS) if new.intersection(call.keywords))


def crosses(promise: Shape, override: Shape) -> bool:
    """Whether a positional argument lands in a parameter of another name that a caller can know.

    The name of a positional-only parameter is unknown, unless the other side uses it too.
    """
    theirs = {p.name for p in promise}
    mine = {p.name for p in override}
    pairs = zip(
        (p for p in promise if p.kind in BY_POSITION),
        (p for p in override if p.kind in BY_POSITION),
        strict=False,
    )
    return any(
        p.name != q.name and (p.kind == POSITIONAL_OR_KEYWORD or p.name in mine or q.name in theirs)
        for p, q in pairs
    )


PROMISES = {shape: accepted(shape) for shape in shapes(("a", "b"))}
OVERRIDES = {shape: accepted(shape) for shape in [*PROMISES, *shapes(("a", "c"))]}


def test_the_pool_is_as_large_as_it_says() -> None:
    assert len(PROMISES) == 220
    assert len(OVERRIDES) == 412
    assert len(CALLS) == 64


def test_binding_errors_agrees_with_every_real_call() -> None:
    wrong = [
        f"{format_shape(shape)} called as {call}: {binding_errors(shape, call)}"
        for shape, bits in OVERRIDES.items()
        for index, call in enumerate(CALLS)
        if bool(binding_errors(shape, call)) == bool(bits >> index & 1)
    ]
    assert wrong == []


def test_drift_agrees_with_real_calls_on_every_pair() -> None:
    missed, false, wordless = [], [], []
    for promise, promised_calls in PROMISES.items():
        for override, kept_calls in OVERRIDES.items():
            lost = promised_calls & ~kept_calls & ~excused(promise, override)
            narrower = bool(lost) or crosses(promise, override)
            reasons = drift(promise, override)
            pair = f"{format_shape(promise)} -> {format_shape(override)}"
            if narrower and not reasons:
                missed.append(pair)
            if reasons and not narrower:
                false.append(f"{pair}: {reasons}")
            if "cannot be called as declared" in reasons:
                wordless.append(pair)
    assert (missed, false, wordless) == ([], [], [])


def shape(signature: str) -> Shape:
    """The shape of ``signature``, written as the parameters of a function."""
    return shape_of(inspect.signature(eval(f"lambda {signature}: None")))


@pytest.mark.parametrize(
    ("promise", "override", "reasons"),
    [
        pytest.param("a, b=1", "a, b=2", (), id="default values do not count"),
        pytest.param("a", "a, b=1", (), id="a new optional parameter is wider"),
        pytest.param("a, b", "a, *args, **kwargs", (), id="variadics take the rest"),
        pytest.param("a, *, b", "a, b", (), id="a keyword-only one may be passed by position too"),
        pytest.param("a, /", "b, /", (), id="nobody knows a positional-only name"),
        pytest.param("a, b", "a, _b", (), id="an underscore marks a parameter as unused"),
        pytest.param("_a, b", "a, b", (), id="or as used again"),
        pytest.param(
            "forward_batch, disable_ragged=False",
            "forward_batch",
            ("drops 'disable_ragged' (position 2)",),
            id="dropped",
        ),
        pytest.param("a", "a, b", ("requires 'b', which the declaration does not have",), id="new"),
        pytest.param(
            "a, b=1", "a, b", ("requires 'b', which is optional in the declaration",), id="required"
        ),
        pytest.param("a, b", "a, c", ("renames 'b' to 'c' (position 2)",), id="renamed"),
        pytest.param(
            "a, b=1",
            "a, c",
            ("renames 'b' to 'c' (position 2)", "requires 'c', where 'b' is optional"),
            id="renamed and required",
        ),
        pytest.param(
            "a, b",
            "b, a",
            ("moves 'a' from position 1 to 2", "moves 'b' from position 2 to 1"),
            id="reordered",
        ),
        pytest.param(
            "a, c=1",
            "a, b=1, c=1",
            ("moves 'c' from position 2 to 3",),
            id="an insertion moves what follows",
        ),
        pytest.param(
            "a, b", "a, *, b", ("takes 'b' by keyword only (was position 2)",), id="keyword only"
        ),
        pytest.param(
            "a", "b=1, *, a=1", ("takes 'a' by keyword only (was position 1)",), id="displaced"
        ),
        pytest.param(
            "a, b", "a, b, /", ("takes 'a' by position only", "takes 'b' by position only")
        ),
        pytest.param("a, *, b=1", "a", ("drops the keyword-only 'b'",)),
        pytest.param("*, b", "b, /", ("takes 'b' by position only",)),
        pytest.param("*, b=1", "*, b", ("requires 'b', which is optional in the declaration",)),
        pytest.param(
            "a, *, b",
            "b, **kw",
            (
                "takes 'a' by keyword only (was position 1)",
                "takes 'b' at position 1 instead of 'a'",
            ),
        ),
        pytest.param(
            "*args, a=1", "a=1, *args", ("takes 'a' at position 1, where *args is declared",)
        ),
        pytest.param("a, *args", "a", ("takes no further positional arguments (*args)",)),
        pytest.param("a, **kwargs", "a", ("takes no further keywords (**kwargs)",)),
        pytest.param(
            "a, b, *, c, **kwargs",
            "b, d",
            (
                "drops 'a' (position 1)",
                "moves 'b' from position 2 to 1",
                "drops the keyword-only 'c'",
                "requires 'd', which the declaration does not have",
                "takes no further keywords (**kwargs)",
            ),
            id="every reason at once",
        ),
    ],
)
def test_drift_says_why(promise: str, override: str, reasons: tuple[str, ...]) -> None:
    assert drift(shape(promise), shape(override)) == reasons


@pytest.mark.parametrize(
    ("signature", "call", "reasons"),
    [
        ("a, b=1", Call(1), ()),
        ("a, b", Call(0, ("a", "b")), ()),
        ("a, /, **kwargs", Call(1, ("a",)), ()),
        ("a=1, /, **kwargs", Call(0, ("a",)), ()),
        (
            "a",
            Call(2, names=("forward_batch", "disable_ragged")),
            ("takes at most 1 positional argument, 2 passed, 'disable_ragged' left over",),
        ),
        ("*, a=1", Call(1), ("takes at most 0 positional arguments, 1 passed",)),
        ("a", Call(1, ("b",)), ("does not accept the keyword 'b'",)),
        ("a", Call(1, ("a",)), ("gets 'a' both by position and by keyword",)),
        (
            "a, /",
            Call(0, ("a",)),
            ("does not accept the keyword 'a'", "needs 'a', which is not passed"),
        ),
        (
            "a, b, *, c",
            Call(1),
            ("needs 'b', which is not passed", "needs 'c', which is not passed"),
        ),
        ("a, b, c", Call(1, star=True), ()),
        ("a, b, c", Call(0, ("a",), double_star=True), ()),
        ("a", Call(2, star=True), ("takes at most 1 positional argument, 2 passed",)),
        ("a", Call(0, ("b",), double_star=True), ("does not accept the keyword 'b'",)),
        ("a, b", Call(1, ("a",), star=True), ("gets 'a' both by position and by keyword",)),
    ],
)
def test_binding_errors_say_why(signature: str, call: Call, reasons: tuple[str, ...]) -> None:
    assert binding_errors(shape(signature), call) == reasons


def test_a_positional_argument_of_another_name_is_pointed_out() -> None:
    call = Call(4, names=("batch", None, "_flag", "seq_lens"))
    assert misnamed_positionals(shape("batch, x, flag, req_ids, y"), call) == (
        ("seq_lens", "req_ids"),
    )


def test_calls_and_shapes_are_written_as_python_writes_them() -> None:
    call = Call(2, ("flag",), star=True, double_star=True, names=("batch", None))
    assert str(call) == "(batch, ..., *..., flag=..., **...)"
    assert format_shape(shape("a, /, b, c=1, *args, d, **kw")) == "(a, /, b, c=..., *args, d, **kw)"


def test_the_receiver_is_taken_off_where_it_is_named() -> None:
    assert without_receiver(shape("self, a")) == shape("a")
    assert without_receiver(shape("*args")) == shape("*args")
    assert without_receiver(()) == ()


def test_variadics_of_an_abstract_base_are_no_promise() -> None:
    declared = shape("a, *args, b=1, **kwargs")
    assert promised(declared) == declared
    assert promised(declared, variadic=False) == shape("a, *, b=1")


def test_shapes_survive_the_way_through_a_signature() -> None:
    assert all(shape_of(signature_of(one)) == one for one in OVERRIDES)


def test_call_shapes_are_calls_that_the_promise_accepts() -> None:
    assert all(
        binding_errors(promise, call) == () for promise in PROMISES for call in call_shapes(promise)
    )
    assert list(call_shapes(shape("a, b=1"))) == [
        Call(0, ("a",)),
        Call(0, ("a", "b")),
        Call(1),
        Call(1, ("b",)),
        Call(2),
    ]
