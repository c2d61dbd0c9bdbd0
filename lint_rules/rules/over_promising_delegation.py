"""MLA303: a wrapper that delegates a hook to a backend which has none."""

from __future__ import annotations

from collections.abc import Iterator

from lint_rules.exposure import Delegation, Wrapper
from lint_rules.facts import Attr, Call, CallEvent, Expr, Name, dotted
from lint_rules.gaps import arguments
from lint_rules.judge import Judge
from lint_rules.link import Klass, shape
from lint_rules.types import Scope
from lint_rules.uses import is_test
from mla_guard.diagnostic import Diagnostic, Related
from mla_guard.drift import signature_of

__all__ = ["check"]


def check(judge: Judge) -> Iterator[Diagnostic]:
    for wrapper in judge.view.wrappers:
        if is_test(wrapper.klass.path):
            continue
        shown = _shown(judge, wrapper)
        said: set[str] = set()
        for delegation in wrapper.delegations:
            if delegation.optional or delegation.call is None or delegation.name in said:
                continue
            if delegation.scope.klass is None or not wrapper.klass.is_a(delegation.scope.klass):
                continue
            if delegation.scope.klass is not wrapper.klass or _asked(delegation):
                continue
            lacking = [
                (klass, evidence)
                for attr in sorted(delegation.attrs)
                for klass, evidence in shown.get(attr, ())
                if judge.view.exposure(klass, delegation.name).kind == "absent"
            ]
            if lacking:
                said.add(delegation.name)
                yield _diagnose(judge, wrapper, delegation, lacking)


def _asked(delegation: Delegation) -> bool:
    """Whether a guard on the way asks the same object for the name, or what it is."""
    for part in delegation.scope.path_of(delegation.cond):
        text = repr(part)
        if repr(delegation.name) in text or "isinstance" in text:
            return True
    return False


def _shown(judge: Judge, wrapper: Wrapper) -> dict[str, list[tuple[Klass, Related]]]:
    """For each held attribute the concrete classes that the tree shows it to hold, and where.

    Shown by a construction of the wrapper around a backend of known class, or else by an
    ``isinstance`` test of what it holds; an annotation with the root alone shows nothing.
    """
    built: dict[str, dict[Klass, Related]] = {}
    tested: dict[str, dict[Klass, Related]] = {}
    open_: set[str] = set()

    def note(
        found: dict[str, dict[Klass, Related]], attr: str, klass: Klass, scope: Scope,
        event: CallEvent, what: str,
    ) -> None:  # fmt: skip
        if klass is not klass.root and klass.root in judge.view.roots:
            place = judge.places.at(scope.path, event.line, klass.name)
            found.setdefault(attr, {}).setdefault(klass, Related(place, f"{scope.symbol} {what}"))

    for scope in judge.view.types.scopes():
        if is_test(scope.path):
            continue
        inside = scope.klass is not None and wrapper.klass.is_a(scope.klass)
        for event in scope.function.events:
            if not isinstance(event, CallEvent):
                continue
            call = event.call
            if inside and call.func == Name("isinstance") and len(call.args) == 2:
                for attr in judge.view.provenance(wrapper, call.args[0], scope):
                    for klass in judge.view.classes_of(call.args[1], scope.path):
                        note(
                            tested, attr, klass, scope, event,
                            f"expects it to hold a {klass.name}",
                        )  # fmt: skip
            name = dotted(call.func)
            if name and wrapper.klass in judge.project.resolve(scope.path, name):
                for attr, value in _arguments(wrapper, call):
                    classes = _exactly(scope, value, event.line)
                    if not classes:
                        open_.add(attr)
                    for klass in classes:
                        note(built, attr, klass, scope, event, f"builds it around a {klass.name}")
    return {
        attr: list({**(tested.get(attr, {}) if attr in open_ or attr not in built else {}),
                    **built.get(attr, {})}.items())
        for attr in {*built, *tested}
    }  # fmt: skip


def _exactly(scope: Scope, value: Expr, line: int) -> list[Klass]:
    """The classes that ``value`` is built as, by assignments that stand before ``line``."""
    if isinstance(value, Name):
        binds = [b for b in scope.binds.get(value.id, ()) if b.line < line]
        found = [k for b in binds for k in _exactly(scope, b.value, b.line)]
        return [] if value.id in scope.params else found
    typed = scope.typed(value)
    return sorted(typed.exact, key=lambda k: (k.path, k.line)) if typed is not None else []


def _arguments(wrapper: Wrapper, call: Call) -> Iterator[tuple[str, Expr]]:
    """The held attributes that a construction fills, with the argument for each."""
    init = wrapper.klass.method("__init__")
    if init is None or init.function is None:
        return
    stored = {
        event.value.id: event.name
        for _, function, event in (
            (o, f, e) for writes in wrapper.klass.stored.values() for o, f, e in writes
        )
        if function is init.function and isinstance(event.value, Name)
    }
    try:
        bound = signature_of(shape(init.function)).bind_partial(*call.args, **dict(call.keywords))
    except TypeError:
        return
    for parameter, value in bound.arguments.items():
        if parameter in stored and stored[parameter] in wrapper.held:
            yield stored[parameter], value


def _diagnose(
    judge: Judge,
    wrapper: Wrapper,
    delegation: Delegation,
    lacking: list[tuple[Klass, Related]],
) -> Diagnostic:
    name = delegation.name
    klass, evidence = lacking[0]
    attr = " or ".join(f"self.{a}" for a in sorted(delegation.attrs))
    assert delegation.call is not None
    method = delegation.scope.symbol
    where = delegation.call.func
    target = where.name if isinstance(where, Attr) else name
    return Diagnostic(
        "MLA303",
        "error",
        f"{method} hands {name} to {attr} unconditionally, but {klass.name}, "
        f"which it can hold, has none: AttributeError",
        judge.places.at(delegation.scope.path, delegation.line, target),
        method,
        (
            evidence,
            Related(judge.places.klass(klass), f"{klass.name} defines no {name}"),
            *(e for _, e in lacking[1:3]),
        ),
        tuple(f"{k.name} has no {name}{arguments(delegation.call)}" for k, _ in lacking),
        f"Ask first: getattr({attr.split(' or ')[0]}, {name!r}, None).",
    )
