"""What has been promised about a class: the guarded bases above it and what was said of them."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

from .contract import (
    BORROWED,
    Hook,
    Mark,
    contract_of,
    function_of,
    hook_of,
    is_marked,
    only_raises,
    plain,
)
from .routes import Combination

__all__ = [
    "MISSING",
    "Terms",
    "declarations",
    "flags_of",
    "has_body",
    "hook_names",
    "is_replaced",
    "modes_of",
    "notice",
    "resolve",
    "roots_of",
]

MISSING: Any = object()


class Terms(NamedTuple):
    """What a guarded base says beyond its own body; a profile holds the same for foreign engines.

    ``marks`` adds to a hook what ``@hook`` would, by class and hook name; the class ``"*"`` is
    every class whose body defines the hook. ``required`` names the
    hooks that every class must implement (None: those that the base declares without a body).
    ``variadic`` says that ``*args`` and ``**kwargs`` of a declaration are a promise.
    ``own_protocol`` names, by class, hooks that this class and its subclasses call by a protocol of
    their own. ``flags`` says how a wrapper must combine the class flags of what it wraps: any, all,
    or the same value as every inner backend. ``modes`` maps forward modes to phases.
    """

    marks: Mapping[str, Mapping[str, Mark]] = MappingProxyType({})
    required: frozenset[str] | None = None
    variadic: bool = True
    own_protocol: Mapping[str, frozenset[str]] = MappingProxyType({})
    flags: Mapping[str, Combination] = MappingProxyType({})
    modes: Mapping[str, str] = MappingProxyType({})


ROOTS: weakref.WeakKeyDictionary[type, Terms] = weakref.WeakKeyDictionary()
"""The guarded bases."""


NAMED: weakref.WeakKeyDictionary[type, set[str]] = weakref.WeakKeyDictionary()
"""The hooks that a mark or a profile declares somewhere below a guarded base."""


def roots_of(cls: type) -> list[tuple[type, Terms]]:
    """The guarded bases of ``cls`` with their terms, nearest first."""
    return [(k, ROOTS[k]) for k in cls.__mro__ if k in ROOTS]


def modes_of(cls: type) -> dict[str, str]:
    """Forward modes to phases, as the guarded bases of ``cls`` map them."""
    return {
        name: phase for _, terms in reversed(roots_of(cls)) for name, phase in terms.modes.items()
    }


def flags_of(cls: type) -> dict[str, Combination]:
    """How wrappers combine class flags, as the guarded bases of ``cls`` say."""
    return {name: how for _, terms in reversed(roots_of(cls)) for name, how in terms.flags.items()}


def resolve(cls: type, name: str, after: type | None = None) -> tuple[type, Any] | None:
    """The class whose body defines ``name`` for ``cls``, and what it defines, without stand-ins.

    With ``after`` the search starts behind that class, as ``super()`` does.
    """
    mro = cls.__mro__
    start = mro.index(after) + 1 if after is not None else 0
    for owner in mro[start:]:
        attribute = vars(owner).get(name, MISSING)
        if attribute is not MISSING and name not in BORROWED.get(owner, ()):
            return owner, plain(attribute)
    return None


def is_replaced(instance: object, name: str) -> bool:
    """Whether an instance has something else than its class's hook; its dict is not touched."""
    found, common = getattr(instance, name, MISSING), getattr(type(instance), name, MISSING)
    return getattr(found, "__func__", found) is not getattr(common, "__func__", common)


def _defined(owner: type, name: str) -> Hook | None:
    if name not in vars(owner) or name in BORROWED.get(owner, ()):
        return None
    return hook_of(name, vars(owner)[name])


def _declared_in(
    owner: type, is_root: bool, terms: Iterator[Terms] | list[Terms]
) -> dict[str, Hook]:
    said = [t.marks[key] for t in terms for key in (owner.__name__, "*") if key in t.marks]
    hooks: dict[str, Hook] = {}
    if is_root:
        hooks.update(contract_of(owner).hooks)
    else:
        for name, attribute in vars(owner).items():
            if name in BORROWED.get(owner, ()):
                continue
            if is_marked(attribute) and (declared := hook_of(name, attribute)) is not None:
                hooks[name] = declared
    for marks in said:
        for name, mark in marks.items():
            declared = hooks.get(name) or _defined(owner, name)
            if declared is not None:
                own = Mark(declared.optional, declared.optional_arguments, declared.clauses)
                joined = own.joined(mark)
                hooks[name] = replace(
                    declared,
                    required=declared.required and not joined.optional,
                    optional=joined.optional,
                    optional_arguments=joined.optional_arguments,
                    clauses=joined.clauses,
                )
    return hooks


_DECLARED: weakref.WeakKeyDictionary[type, dict[str, list[tuple[weakref.ref[type], Hook]]]] = (
    weakref.WeakKeyDictionary()
)


def forget_declarations() -> None:
    """A base was put under guard or taken out: read anew what is promised."""
    _DECLARED.clear()


def declarations(cls: type) -> dict[str, list[tuple[type, Hook]]]:
    """Every hook that was promised about ``cls``, by name: who promised it and how, nearest first.

    The public methods of a guarded base are promises; so is, in any class between, a method that
    ``@hook`` marks or that a profile names.
    """
    known = _DECLARED.get(cls)
    if known is None:
        known = _DECLARED[cls] = {
            name: [(weakref.ref(owner), hook) for owner, hook in promises]
            for name, promises in _declarations(cls).items()
        }
    return {
        name: [(owner, hook) for reference, hook in promises if (owner := reference()) is not None]
        for name, promises in known.items()
    }


def _declarations(cls: type) -> dict[str, list[tuple[type, Hook]]]:
    terms = [t for _, t in roots_of(cls)]
    promised: dict[str, list[tuple[type, Hook]]] = {}
    for owner in cls.__mro__:
        for name, declared in _declared_in(owner, owner in ROOTS, terms).items():
            required = [t.required for t in terms if t.required is not None]
            if required and not any(name in names for names in required):
                declared = replace(declared, required=False)
            promised.setdefault(name, []).append((owner, declared))
    return promised


def hook_names(cls: type) -> list[str]:
    """The hooks of ``cls``: what is promised about it, and what it has of its family's hooks."""
    names = dict.fromkeys(declarations(cls))
    for root, _ in roots_of(cls):
        names.update((n, None) for n in sorted(NAMED.get(root, ())) if resolve(cls, n) is not None)
    return list(names)


def notice(root: type, cls: type) -> None:
    """Remember the hooks that a class below a guarded base declares."""
    declared = _declared_in(cls, is_root=False, terms=[ROOTS[root]])
    NAMED.setdefault(root, set()).update(declared)


def has_body(attribute: Any) -> bool:
    """Whether a class attribute is something to call: not None, not abstract, not only a raise."""
    if attribute is None or getattr(attribute, "__isabstractmethod__", False):
        return False
    function = function_of(attribute)
    return function is None or not only_raises(function.__code__)
