"""Who implements, inherits or delegates which hook: the table that is printed and drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from lint_rules.declared import is_optional
from lint_rules.judge import Judge
from lint_rules.link import Klass, Member, is_abstract, kind_of, shape
from lint_rules.rules import hook_signature_drift
from mla_guard.drift import format_shape

__all__ = [
    "LETTERS",
    "WORDS",
    "Cell",
    "Drifted",
    "Hook",
    "Matrix",
    "State",
    "cell_of",
    "declaration",
    "drifted",
    "hooks_of",
    "matrix_of",
    "signature",
    "spread",
]

State = Literal["implemented", "drifted", "inherited", "delegated", "raises", "absent"]

LETTERS: dict[State, str] = {
    "implemented": "I",
    "drifted": "D",
    "inherited": "i",
    "delegated": "d",
    "raises": "r",
    "absent": ".",
}
"""How each state is printed."""

WORDS: dict[State, str] = {
    "implemented": "implements",
    "drifted": "drifts",
    "inherited": "inherits",
    "delegated": "delegates",
    "raises": "raises only",
    "absent": "absent",
}
"""What each state says of a backend."""

Drifted = frozenset[tuple[str, str]]
"""Definitions that MLA101 is about, as file and symbol."""


@dataclass(frozen=True, slots=True)
class Hook:
    """A hook of a root: its declaration, or the definitions where the root declares none."""

    name: str
    declared: Member | None
    definitions: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class Cell:
    """How a backend answers to a hook, and the definition that it answers with, if one is found."""

    state: State
    member: Member | None


@dataclass(frozen=True, slots=True)
class Matrix:
    """Of ``root``'s hooks, in its order, a cell in each row; rows are classes by name and file."""

    root: Klass
    hooks: tuple[Hook, ...]
    rows: Mapping[Klass, tuple[Cell, ...]]


def matrix_of(judge: Judge, klass: Klass, drift: Drifted) -> Matrix:
    """The table of ``klass`` and the classes below it; a root itself has no row."""
    root = klass.root or klass
    hooks = tuple(hooks_of(judge, root))
    below = sorted({klass, *klass.descendants} - {root}, key=lambda k: (k.name, k.path))
    rows = {k: tuple(cell_of(judge, k, hook.name, drift) for hook in hooks) for k in below}
    return Matrix(root, hooks, rows)


def drifted(judge: Judge) -> Drifted:
    """The definitions whose signature MLA101 finds to have drifted, ignored ones included."""
    return frozenset((d.place.path, d.symbol) for d in hook_signature_drift.check(judge))


def hooks_of(judge: Judge, root: Klass) -> list[Hook]:
    """What the root declares, in its order, then what callers ask of backends without it."""
    found = [
        Hook(name, member, ())
        for name, member in root.members.items()
        if _is_hook(member) and not name.startswith("_")
    ]
    below = [k for k in judge.view.backends if k.root is root]
    for name in sorted(judge.view.uses):
        if name.startswith("_") or not judge.view.outer_uses(name):
            continue
        definitions = tuple(k.own[name] for k in below if name in k.own and _is_hook(k.own[name]))
        if definitions and name not in root.members:
            found.append(Hook(name, None, definitions))
    return found


def _is_hook(member: Member) -> bool:
    return member.function is not None and kind_of(member.function) in ("method", "property")


def cell_of(judge: Judge, klass: Klass, name: str, drift: Drifted) -> Cell:
    """How an instance of ``klass`` answers to the hook ``name``."""
    exposure = judge.view.exposure(klass, name)
    member = exposure.member
    own = member is not None and member.owner is klass
    if member is not None and own and (klass.path, member.symbol) in drift:
        return Cell("drifted", member)
    wrapper = judge.view.wrapper(klass)
    if exposure.kind == "dynamic" or (
        wrapper is not None
        and any(d.name == name and d.scope.function.name == name for d in wrapper.delegations)
    ):
        return Cell("delegated", member)
    if member is None:
        return Cell("implemented" if exposure.kind == "own" else "absent", None)
    if member.function is not None and is_abstract(member.function):
        return Cell("raises", member)
    return Cell("implemented" if own else "inherited", member)


def signature(member: Member) -> str:
    """``name(parameters)`` of a method, ``name (property)`` of a property."""
    assert member.function is not None
    if kind_of(member.function) == "property":
        return f"{member.name} (property)"
    return f"{member.name}{format_shape(shape(member.function))}"


def declaration(hook: Hook) -> str:
    """The signature that the root declares, or those of the definitions below it."""
    if hook.declared is None:
        return " or ".join(dict.fromkeys(map(signature, hook.definitions)))
    return signature(hook.declared)


def spread(judge: Judge, root: Klass, hook: Hook) -> str:
    """How a root's hook is declared and how many classes below define it."""
    defining = sum(hook.name in k.own for k in judge.view.backends if k.root is root)
    if hook.declared is None:
        how = "not declared, but asked for"
    else:
        assert hook.declared.function is not None
        required = is_abstract(hook.declared.function)
        how = "required" if required else "has a default"
        if is_optional(hook.declared.function):
            how = "optional"
    return f"{how}; {defining} of {len(list(root.descendants))} classes define it"
