"""A base class's hooks and what they promise, read from source: what the guard reads by import."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lint_rules.facts import (
    Attr,
    Call,
    ClassFacts,
    Const,
    Expr,
    Function,
    Name,
    Opaque,
    Seq,
    dotted,
)
from lint_rules.link import is_abstract, kind_of
from mla_guard.contract import Contract, Hook, HookKind, Mark, mark_of
from mla_guard.diagnostic import Place
from mla_guard.drift import Param, Shape, without_receiver
from mla_guard.routes import COMBINATIONS, Combination, NoLiteral

__all__ = [
    "contract_of_source",
    "flags_in_source",
    "is_hook",
    "is_optional",
    "literal",
    "mark_in_source",
    "optional_arguments",
]

_KINDS: dict[str, HookKind] = {
    "method": "method",
    "static": "static",
    "class": "class",
    "property": "property",
}


def contract_of_source(path: Path, class_name: str) -> Contract:
    """The contract that the class ``class_name`` in the file ``path`` declares.

    Equal to :func:`mla_guard.contract_of` of the imported class. Raises :class:`LookupError` where
    the file has no such class, :class:`ValueError` where it cannot be parsed or a mark holds what
    is no literal, and :class:`OSError` where it cannot be read.
    """
    from lint_rules.extract import extract  # the parser: what links never needs it

    facts = extract(str(path), path.read_text(encoding="utf-8"))
    if facts.error:
        raise ValueError(f"{path}:{facts.error_line}: {facts.error}")
    for klass in facts.classes:
        if klass.qualname.rpartition("<locals>.")[2] == class_name:
            return _contract(str(path), klass, class_name)
    known = ", ".join(k.qualname for k in facts.classes) or "none"
    raise LookupError(f"{path} has no class {class_name!r} (classes: {known})")


def _contract(path: str, klass: ClassFacts, class_name: str) -> Contract:
    hooks: dict[str, Hook] = {}
    for method in klass.methods:
        if not is_hook(method):
            continue
        kind, mark = kind_of(method), mark_in_source(path, method)
        hooks[method.name] = Hook(
            method.name,
            _KINDS[kind],
            _shape(method, kind),
            required=is_abstract(method) and not mark.optional,
            optional=mark.optional,
            optional_arguments=mark.optional_arguments,
            clauses=mark.clauses,
            place=Place(path, method.line),
        )
    return Contract(class_name, hooks)


def is_hook(method: Function) -> bool:
    """Whether a base that defines a method so declares a hook: a public one, or a marked one."""
    marked = any(_is_hook_mark(name) for name in method.decorators)
    public = not method.name.startswith("_")
    return kind_of(method) != "setter" and (public or (marked and not method.name.startswith("__")))


def optional_arguments(method: Function) -> frozenset[str]:
    """The parameters that wrappers may drop, as far as the marks of a method say it in literals."""
    found: set[str] = set()
    for call in _mark_calls(method):
        value = dict(call.keywords).get("optional_arguments")
        for item in value.items if isinstance(value, Seq) else (value,):
            if isinstance(item, Const):
                found.add(str(ast.literal_eval(item.text)))
    return frozenset(found)


def flags_in_source(klass: ClassFacts) -> dict[str, Combination]:
    """How wrappers combine class flags, as ``@guard(flags={...})`` on a base says."""
    for call in klass.marks:
        said = dict(call.keywords).get("flags")
        if dotted(call.func).rpartition(".")[2] == "guard" and isinstance(said, Const):
            flags = literal(said.text)
            if isinstance(flags, dict):
                return {str(name): how for name, how in flags.items() if how in COMBINATIONS}
    return {}


def literal(text: str) -> object:
    """The value of a literal, or :class:`NoLiteral` where the source is none."""
    try:
        value: object = ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError):
        return NoLiteral(text)
    return value


def _shape(method: Function, kind: str) -> Shape:
    if kind == "property":
        return ()
    shape = tuple(Param(p.name, p.kind, p.required) for p in method.params)
    return shape if kind == "static" else without_receiver(shape)


def _is_hook_mark(decorator: str) -> bool:
    return decorator.rpartition(".")[2] == "hook"


def _mark_calls(method: Function) -> list[Call]:
    return [
        call
        for call in method.marks
        if isinstance(call.func, (Name, Attr))
        and _is_hook_mark(call.func.id if isinstance(call.func, Name) else call.func.name)
    ]


def is_optional(method: Function) -> bool:
    """Whether ``@hook(optional=True)`` marks a method."""
    return any(dict(call.keywords).get("optional") == Const("True") for call in _mark_calls(method))


def mark_in_source(path: str, method: Function) -> Mark:
    """What the ``@hook`` decorators of a method say, the topmost first."""
    mark = Mark()
    for call in _mark_calls(method):
        values: dict[str, Any] = {
            name: _value(value, f"{path}:{method.line}: @hook({name}=...)")
            for name, value in call.keywords
        }
        mark = mark.joined(mark_of(**values))
    return mark


def _value(expr: Expr, where: str) -> object:
    """A literal, or a function of the name that is meant, for a condition given as one."""
    if isinstance(expr, Const):
        return ast.literal_eval(expr.text)
    if isinstance(expr, Seq):
        return tuple(_value(item, where) for item in expr.items)
    if isinstance(expr, (Name, Attr)):
        return _named(expr.id if isinstance(expr, Name) else expr.name)
    if isinstance(expr, Opaque):
        return _named("<lambda>")
    raise ValueError(f"{where} is no literal and no function")


def _named(name: str) -> Callable[..., object]:
    def condition() -> object:
        raise AssertionError(f"{name} is read, not run")

    condition.__name__ = name
    return condition
