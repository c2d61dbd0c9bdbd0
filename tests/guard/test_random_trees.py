"""The guard's verdict on random class trees is what Python does when the calls are really made."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from mla_guard import HookContractError, guard, status, unguard_hierarchy, verify

NAMES = ("a", "b", "c")
KINDS = ("only", "normal", "star", "keyword", "double")


class Parameter(NamedTuple):
    kind: str
    name: str
    default: bool


def source(parameters: tuple[Parameter, ...]) -> str:
    """The parameter list as Python writes it."""
    parts: list[str] = []
    for kind, group in itertools.groupby(parameters, key=lambda p: p.kind):
        texts = [p.name + ("='default'" if p.default else "") for p in group]
        if kind == "only":
            parts += [*texts, "/"]
        elif kind == "star":
            parts.append("*rest")
        elif kind == "double":
            parts.append("**more")
        elif kind == "keyword" and "*rest" not in parts:
            parts += ["*", *texts]
        else:
            parts += texts
    return ", ".join(parts)


@st.composite
def signatures(draw: st.DrawFn) -> tuple[Parameter, ...]:
    names = draw(st.permutations(NAMES))[: draw(st.integers(0, len(NAMES)))]
    kinds = sorted(
        (draw(st.sampled_from(("only", "normal", "keyword"))) for _ in names), key=KINDS.index
    )
    chosen: list[Parameter] = []
    optional = False
    for kind, name in zip(kinds, names, strict=True):
        default = draw(st.booleans())
        if kind != "keyword":
            default = optional = optional or default
        chosen.append(Parameter(kind, name, default))
    if draw(st.integers(0, 3)) == 0:
        chosen.append(Parameter("star", "rest", False))
    if draw(st.integers(0, 3)) == 0:
        chosen.append(Parameter("double", "more", False))
    return tuple(sorted(chosen, key=lambda p: KINDS.index(p.kind)))


def function(parameters: tuple[Parameter, ...]) -> Any:
    """A hook that returns what each parameter got."""
    text = source(parameters)
    space: dict[str, Any] = {}
    exec(f"def run(self, {text}):\n    del self\n    return dict(locals())", space)
    return space["run"]


Call = tuple[tuple[str, ...], tuple[str, ...]]


def calls() -> Iterator[Call]:
    """Calls by how many positional arguments and which keywords; five arguments of each at most."""
    keywords = (*NAMES, "unknown")
    for positional in range(len(NAMES) + 3):
        for count in range(len(keywords) + 1):
            for chosen in itertools.combinations(keywords, count):
                yield tuple(f"p{i}" for i in range(positional)), chosen


CALLS = tuple(calls())


def perform(receiver: Any, call: Call) -> dict[str, Any]:
    """Make a call; what it gave each parameter."""
    result: dict[str, Any] = receiver.run(*call[0], **{k: f"k{k}" for k in call[1]})
    return result


def made(receiver: Any, call: Call) -> dict[str, Any] | None:
    """What a real call gave each parameter, or None where Python refused it."""
    try:
        return perform(receiver, call)
    except TypeError:
        return None


def refusal(action: Callable[[], object]) -> list[str]:
    """The codes that an action is refused with; none where it is not."""
    try:
        action()
    except HookContractError as error:
        return [d.code for d in error.diagnostics]
    return []


def right(promise: tuple[Parameter, ...], base: Any, override: Any) -> bool:
    """Whether each call that the base takes works, its positional arguments where they are meant.

    A promise of ``**more`` is one of keywords that nobody has named: with ``run(*rest, **more)``
    promised, ``run(a, *rest, **more)`` is right although it refuses ``run(1, a=2)``. And a
    parameter that no caller can name may be called anything.
    """
    named = {p.name for p in promise if p.kind in ("normal", "keyword")}
    known = {p.name for p in promise if p.kind == "normal"}
    for call in CALLS:
        meant = made(base, call)
        if meant is None or any(k not in named and k != "unknown" for k in call[1]):
            continue
        got = made(override, call)
        if got is None:
            return False
        at = {value: name for name, value in got.items() if isinstance(value, str)}
        for name, value in meant.items():
            lands = at.get(value, name) if value in call[0] else name
            if lands != name and (name in known or name in got or lands in meant):
                return False
    return True


class Tree(NamedTuple):
    promise: tuple[Parameter, ...]
    bases: tuple[tuple[int, ...], ...]
    overrides: tuple[tuple[Parameter, ...] | None, ...]


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    """The promise of class 0, and for each further class its bases and perhaps an override."""
    bases: list[tuple[int, ...]] = [(0,)]
    overrides: list[tuple[Parameter, ...] | None] = [draw(signatures())]
    for number in range(2, draw(st.integers(1, 5)) + 1):
        above = draw(st.lists(st.integers(0, number - 1), min_size=1, max_size=2, unique=True))
        bases.append(tuple(above))
        overrides.append(draw(st.none() | signatures()))
    return Tree(draw(signatures()), tuple(bases), tuple(overrides))


def grown(tree: Tree, *, guarded: bool) -> list[Any]:
    classes: list[Any] = [type("C0", (), {"run": function(tree.promise)})]
    if guarded:
        guard(classes[0])
    for number, (above, override) in enumerate(zip(tree.bases, tree.overrides, strict=True), 1):
        body = {} if override is None else {"run": function(override)}
        classes.append(type(f"C{number}", tuple(classes[i] for i in above), body))
    return classes


ANY_TREE = settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@ANY_TREE
@given(trees(), st.data())
def test_the_verdict_is_that_of_the_calls(tree: Tree, data: st.DataObject) -> None:
    try:
        bare = grown(tree, guarded=False)
    except TypeError:  # no consistent method resolution order
        assume(False)
    guarded = grown(tree, guarded=True)
    base = bare[0]()
    for plain, cls in zip(bare, guarded, strict=True):
        expected = right(tree.promise, base, plain())
        assert refusal(functools.partial(verify, cls)) == ([] if expected else ["MLA101"])
        call = data.draw(st.sampled_from(CALLS))
        instance = cls()
        want = made(plain(), call)
        if not expected:
            mismatch = ["MLA102"] if want is None else []
            for _ in range(2):
                assert refusal(functools.partial(perform, instance, call)) == ["MLA101", *mismatch]
        elif want is None:
            assert refusal(functools.partial(perform, instance, call)) == ["MLA102"]
        else:
            assert made(instance, call) == want
            assert made(instance, call) == want
            assert status(instance).verified
            assert not hasattr(cls.run, "__wrapped__")
    unguard_hierarchy(guarded[0])
    for plain, cls in zip(bare, guarded, strict=True):
        assert vars(cls).keys() == vars(plain).keys()
        for call in CALLS[::7]:
            assert made(cls(), call) == made(plain(), call)
