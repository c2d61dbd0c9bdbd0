"""MLA102: a call whose arguments do not bind to an implementation that it can reach."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lint_rules.conditions import show
from lint_rules.dispatch import super_target
from lint_rules.facts import Attr, Call, CallEvent, Const, Name
from lint_rules.gaps import arguments
from lint_rules.judge import Judge
from lint_rules.link import Klass, Member, is_abstract, kind_of, shape
from lint_rules.rules.hook_signature_drift import declaration, promise_of
from lint_rules.strangers import holders_of_steps
from lint_rules.types import Scope
from lint_rules.uses import Use
from mla_guard.diagnostic import Diagnostic, Related
from mla_guard.drift import Call as Arguments
from mla_guard.drift import Shape, binding_errors, format_shape, misnamed_positionals

__all__ = ["check"]


def check(judge: Judge) -> Iterator[Diagnostic]:
    yield from _calls_on_backends(judge)
    yield from judge.each(judge.classes, _inside)
    yield from _constructions(judge)
    yield from _factories(judge)


def _inside(judge: Judge, klass: Klass) -> Iterator[Diagnostic]:
    """Calls between the methods of one class and those that it inherits."""
    yield from _collisions(judge, klass)
    for method in klass.facts.methods:
        scope = judge.view.types.scope(klass, method)
        yield from _calls_to_parents(judge, klass, scope)


def _calls_on_backends(judge: Judge) -> Iterator[Diagnostic]:
    for name, uses in sorted(judge.view.uses.items()):
        for use in uses:
            if use.call is not None and not use.caught:
                yield from _call_on_backend(judge, name, use)


def _call_on_backend(judge: Judge, name: str, use: Use) -> Iterator[Diagnostic]:
    assert use.call is not None
    call = arguments(use.call)
    accepting: list[Klass] = []
    refusing: list[tuple[Klass, Member, tuple[str, ...]]] = []
    known: dict[int, tuple[str, ...]] = {}
    for klass, member in _implementing(use.typed.possible, name):
        errors = known.get(id(member.function))
        if errors is None or use.delegated:  # which drops what parents of the class allow
            errors = known[id(member.function)] = judge.refused(use, klass, member)
        if errors:
            refusing.append((klass, member, errors))
        else:
            accepting.append(klass)
    if not refusing or _asks_signature(use, call):
        return
    inside = use.scope.klass if use.scope.klass in judge.view.backends else None
    failing: dict[Member, tuple[str, ...]] = {}
    for klass, member, errors in refusing:
        if member not in failing and _reaches(judge, use, inside, klass):
            failing[member] = errors
    if failing and any(_reaches(judge, use, inside, klass) for klass in accepting):
        # where others accept the call, what refuses it must have promised to accept it; that
        # override is a finding of its own, which names its callers outside of wrappers
        failing = {
            m: errors
            for m, errors in failing.items()
            if inside is not None and _promised(m.owner, m, call)
        }
    elif failing and any(
        member.function is not None and not binding_errors(shape(member.function), call)
        for _, member in _implementing(holders_of_steps(judge.view, use), name)
    ):
        return
    if failing:
        yield _refused(judge, name, use, call, failing)


def _implementing(classes: Iterable[Klass], name: str) -> Iterator[tuple[Klass, Member]]:
    """Those of some classes that can be called by ``name``, and what is called then."""
    for klass in classes:
        member = klass.method(name)
        if member is None or member.function is None:
            continue
        if not is_abstract(member.function) and kind_of(member.function) != "property":
            yield klass, member


def _reaches(judge: Judge, use: Use, inside: Klass | None, klass: Klass) -> bool:
    """Whether a call that stands ``inside`` a backend, or in none, is meant for a ``klass``."""
    if not use.admits(klass, judge.view):
        return False
    exact = klass in use.typed.exact
    if judge.view.in_steps(klass) and not exact:
        return False
    if inside is None:
        return True
    if not judge.wraps(inside, klass) or (
        klass.is_a(inside) and not any(k.is_a(inside) for k in use.typed.named)
    ):
        return False  # not written for such a backend, or for holding one of its own kind
    return exact or not _picks(inside, use)


def _picks(inside: Klass, use: Use) -> bool:
    """Whether a class calls for what it holds itself, and so for one that fits, not for any."""
    base = use.base
    if not isinstance(base, Attr) or base.value != Name(use.scope.receiver):
        return False
    values = [write.value for _, _, write in inside.stored.get(base.name, ())]
    return bool(values) and all(isinstance(value, Call) for value in values)


def _asks_signature(use: Use, call: Arguments) -> bool:
    """Whether a guard on the way looks for one of the keywords in some signature."""
    scope = use.scope
    for part in scope.path_of(use.cond):
        text = repr(part)
        for name, binds in scope.binds.items():
            if repr(Name(name)) in text:
                text += "".join(repr(b.value) for b in binds)
        if "signature" in text and any(repr(Const(repr(k))) in text for k in call.keywords):
            return True
    return False


def _refused(
    judge: Judge, name: str, use: Use, call: Arguments, failing: dict[Member, tuple[str, ...]]
) -> Diagnostic:
    first = next(iter(failing))
    assert first.function is not None
    signature = format_shape(shape(first.function))
    others = f" and {len(failing) - 1} more" if len(failing) > 1 else ""
    return Diagnostic(
        "MLA102",
        "error",
        f"{name}{call} does not bind to {first.symbol}{signature}{others}",
        judge.places.at(use.scope.path, use.line, _called_as(use, name)),
        use.scope.symbol,
        tuple(Related(judge.places.member(m), f"{m.symbol} is defined here") for m in failing),
        tuple(f"{m.symbol} {reason}" for m, found in failing.items() for reason in found),
        f"TypeError as soon as {show(use.base)} is a {first.owner.name}. Pass only what every "
        "backend accepts, or widen the implementation.",
    )


def _called_as(use: Use, name: str) -> str:
    assert use.call is not None
    func = use.call.func
    if isinstance(func, Attr) and use.delegated:
        return func.name
    return func.id if isinstance(func, Name) else name


def _promised(klass: Klass, member: Member, call: Arguments) -> bool:
    """Whether a parent of the implementation declares the hook so that the call would bind."""
    seen: Klass | None = member.owner
    while seen is not None:
        declared = declaration(klass, member.name, seen)
        if declared is None:
            return False
        if not binding_errors(promise_of(declared), call):
            return True
        seen = declared.owner
    return False


def _calls_to_parents(judge: Judge, klass: Klass, scope: Scope) -> Iterator[Diagnostic]:
    function = scope.function
    for event in function.events:
        if not isinstance(event, CallEvent) or event.caught:
            continue
        target = super_target(event.call, klass, klass, scope.receiver)
        if target is None or target.function is None or target.owner is klass:
            continue
        by_class = not (
            isinstance(event.call.func, Attr)
            and getattr(event.call.func.value, "func", None) == Name("super")
        )
        call = arguments(event.call)
        mine = shape(target.function)
        if by_class:
            call = Arguments(
                call.positional - 1, call.keywords, call.star, call.double_star, call.names[1:]
            )
        errors = binding_errors(mine, call)
        if errors:
            said = f"super().{target.name}{call}"
            hint = "TypeError as soon as the call is reached."
            yield _unbound(judge, scope, event, said, target.name, target, errors, hint)
        elif not call.star:
            yield from _misnamed(judge, scope, event, target, call, mine)


def _unbound(
    judge: Judge,
    scope: Scope,
    event: CallEvent,
    called: str,
    name: str,
    target: Member,
    errors: tuple[str, ...],
    hint: str,
) -> Diagnostic:
    """``called``, at ``name`` in ``event``, does not bind to the one definition that it reaches."""
    assert target.function is not None
    return Diagnostic(
        "MLA102",
        "error",
        f"{called} does not bind to {target.symbol}{format_shape(shape(target.function))}",
        judge.places.at(scope.path, event.line, name),
        scope.symbol,
        (Related(judge.places.member(target), f"{target.symbol} is defined here"),),
        tuple(f"{target.symbol} {reason}" for reason in errors),
        hint,
    )


def _misnamed(
    judge: Judge, scope: Scope, event: CallEvent, target: Member, call: Arguments, mine: Shape
) -> Iterator[Diagnostic]:
    """Optional parameters of the caller that land in an optional parameter of another name."""
    optional = {p.name for p in mine if not p.required}
    own_optional = {p.name for p in scope.function.params if not p.required}
    names = {p.name for p in mine}
    for argument, parameter in misnamed_positionals(mine, call):
        crossed = argument in names
        if not crossed and not (argument in own_optional and parameter in optional):
            continue
        if argument not in scope.params or _abbreviates(argument, parameter):
            continue
        passed = _passed(judge, scope, argument)
        assert target.function is not None
        yield Diagnostic(
            "MLA102",
            "error" if passed else "warning",
            f"positional argument {argument} of super().{target.name} lands in parameter "
            f"{parameter} of {target.symbol}",
            judge.places.at(scope.path, event.line, argument),
            scope.symbol,
            (
                Related(
                    judge.places.member(target),
                    f"{target.symbol}{format_shape(mine)} is defined here",
                ),
                *passed[:1],
            ),
            (f"{argument} is a parameter of {scope.symbol}; {target.symbol} calls it {parameter}",),
            f"Pass it by keyword, or drop it. {'' if passed else 'Latent: '}"
            f"a caller that passes {argument} has it taken for {parameter}.",
        )


def _abbreviates(a: str, b: str) -> bool:
    """Whether one name is the other in short: ``fb``, ``forward_batch``; ``bs``, ``max_bs``."""
    short, long = sorted((a.strip("_"), b.strip("_")), key=len)
    words = long.split("_")
    return short == "".join(w[:1] for w in words) or set(short.split("_")) <= set(words)


def _passed(judge: Judge, scope: Scope, parameter: str) -> list[Related]:
    """Constructions in the tree that pass ``parameter`` something other than None."""
    found: list[Related] = []
    if scope.klass is None or scope.function.name != "__init__":
        return found
    position = [p.name for p in scope.function.params].index(parameter) - 1
    for other, event, named in judge.view.types.naming_calls:
        if scope.klass not in named:
            continue
        value = dict(event.call.keywords).get(parameter)
        if value is None and position < len(event.call.args):
            value = event.call.args[position]
        if value is not None and value != Const("None"):
            found.append(
                judge.places.related(
                    other.path,
                    event.line,
                    scope.klass.name,
                    f"{other.symbol} passes {parameter} here",
                )
            )
    return found


def _collisions(judge: Judge, klass: Klass) -> Iterator[Diagnostic]:
    """Private helpers that a child re-declares while a parent's method still calls its own."""
    for name, member in klass.own.items():
        function = member.function
        if function is None or not name.startswith("_") or name.startswith("__"):
            continue
        if kind_of(function) == "property" or is_abstract(function):
            continue
        declared = declaration(klass, name)
        if declared is None or declared.function is None:
            continue
        for parent, caller, event, call in _parent_calls(klass, name):
            errors = binding_errors(shape(function), call)
            if not errors or binding_errors(shape(declared.function), call):
                continue
            yield Diagnostic(
                "MLA102",
                "error",
                f"{parent.name}.{caller} calls self.{name}{call}, which does not bind to "
                f"{member.symbol}{format_shape(shape(function))}",
                judge.places.member(member),
                member.symbol,
                (
                    judge.places.related(
                        parent.path, event.line, name, f"{parent.name}.{caller} calls it here"
                    ),
                    Related(judge.places.member(declared), f"{declared.symbol} is meant"),
                ),
                tuple(f"{member.symbol} {reason}" for reason in errors),
                f"Widen the helper of {klass.name}, or rename it where it is not meant to replace "
                "its parent's.",
            )
            break


def _parent_calls(klass: Klass, name: str) -> Iterator[tuple[Klass, str, CallEvent, Arguments]]:
    """Calls of ``self.name`` in parents' methods that an instance of ``klass`` still runs."""
    for parent in klass.mro[1:]:
        for method in parent.own.values():
            function = method.function
            if function is None or method.name == name or not _runs(klass, method):
                continue
            receiver = Name(function.params[0].name) if function.params else None
            for event in function.events:
                if isinstance(event, CallEvent) and isinstance(event.call.func, Attr):
                    func = event.call.func
                    if func.name == name and func.value == receiver:
                        yield parent, method.name, event, arguments(event.call)


def _runs(klass: Klass, method: Member) -> bool:
    """Whether an instance of ``klass`` runs ``method``: by lookup, or through ``super()``."""
    current = klass.members.get(method.name)
    for _ in range(len(klass.mro)):
        if current is None or current.function is None:
            return False
        if current == method:
            return True
        owner, function = current.owner, current.function
        receiver = function.params[0].name if function.params else ""
        current = next(
            (
                target
                for event in function.events
                if isinstance(event, CallEvent)
                and (target := super_target(event.call, owner, klass, receiver)) is not None
                and target.name == method.name
            ),
            None,
        )
    return False


def _constructions(judge: Judge) -> Iterator[Diagnostic]:
    for scope, event, named in judge.view.types.naming_calls:
        func = event.call.func
        if event.caught or (isinstance(func, Name) and scope.binds.get(func.id)):
            continue
        classes = [k for k in named if k.root is not None]
        for klass in classes if len(classes) == 1 else ():
            init = klass.method("__init__")
            if init is None or init.function is None or not klass.complete:
                continue
            call = arguments(event.call)
            errors = binding_errors(shape(init.function), call)
            if errors:
                said = f"{klass.name}{call}"
                hint = "TypeError as soon as the backend is built."
                yield _unbound(judge, scope, event, said, klass.name, init, errors, hint)


def _factories(judge: Judge) -> Iterator[Diagnostic]:
    """Calls of a class that a backend hands out, which some class of the family does not fit.

    What is passed by position has to mean what the family's base calls it.
    """
    said: set[Member] = set()
    promised = [
        (klass, init, promise)
        for klass in judge.view.types.returned_classes
        if (init := klass.method("__init__")) is not None
        and (promise := _promised_init(klass)) is not None
    ]
    names = {p.name for _, _, promise in promised for p in _parameters(promise)}
    for scope in judge.view.types.scopes() if promised else ():
        for event in scope.function.calls:
            if not any(type(a) is Name and a.id in names for a in event.call.args):
                continue
            if event.caught or not isinstance(event.call.func, (Name, Attr)):
                continue
            made = scope.class_typed(event.call.func)
            if made is None:
                continue
            call = arguments(event.call)
            for klass, init, promise in promised:
                if init in said or not made.holds(klass):
                    continue
                known = klass.complete or init.owner is klass
                moved = _moved(init, promise, call) if known else ()
                if moved:
                    said.add(init)
                    yield _misbuilt(judge, scope, event, init, promise, moved)


def _parameters(member: Member) -> Shape:
    return shape(member.function) if member.function is not None else ()


def _promised_init(klass: Klass) -> Member | None:
    """The constructor that the base class of a family, or of a part of it, declares for all."""
    root = klass.root
    if root is None or root is klass:
        return None
    above = (parent.own.get("__init__") for parent in klass.mro[1:])
    declared = next(
        (m for m in above if m is not None and m.function is not None and is_abstract(m.function)),
        root.members.get("__init__"),
    )
    return declared if declared is not None and declared.function is not None else None


def _moved(init: Member, promise: Member, call: Arguments) -> tuple[str, ...]:
    assert init.function is not None
    assert promise.function is not None
    mine, theirs = shape(init.function), shape(promise.function)
    if binding_errors(theirs, call) or binding_errors(mine, call):
        return ()
    if misnamed_positionals(theirs, call):
        return ()  # a caller that does not keep the order builds other classes
    names = {p.name for p in theirs}
    return tuple(
        f"{argument} lands in {parameter}"
        for argument, parameter in misnamed_positionals(mine, call)
        if argument in names
    )


def _misbuilt(
    judge: Judge,
    scope: Scope,
    event: CallEvent,
    init: Member,
    promise: Member,
    moved: tuple[str, ...],
) -> Diagnostic:
    assert init.function is not None
    assert promise.function is not None
    built = show(event.call.func)
    return Diagnostic(
        "MLA102",
        "error",
        f"{scope.symbol} builds whichever class {built} is by position, and of {init.symbol} "
        + "; ".join(moved),
        judge.places.member(init),
        init.symbol,
        (
            judge.places.related(scope.path, event.line, built, f"{scope.symbol} builds it here"),
            Related(
                judge.places.member(promise),
                f"{promise.symbol}{format_shape(shape(promise.function))} is the order for all",
            ),
        ),
        tuple(f"{init.symbol} takes {format_shape(shape(init.function))}" for _ in moved[:1]),
        "Take the parameters of the base class, in their order.",
    )
