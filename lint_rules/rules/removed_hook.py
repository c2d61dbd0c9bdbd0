"""MLA306: a hook or attribute under a name of which one side knows nothing any more."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from lint_rules.facts import ClassAttr, roots_of
from lint_rules.gaps import is_guarded
from lint_rules.judge import Judge
from lint_rules.link import Klass, Member
from lint_rules.nearest import nearest
from lint_rules.strangers import asks_itself, strangers
from lint_rules.uses import Use
from lint_rules.walked import Site
from mla_guard.diagnostic import Diagnostic, Related

__all__ = ["check"]


def check(judge: Judge) -> Iterator[Diagnostic]:
    said: set[tuple[str, str]] = set()
    for name, uses in sorted(judge.view.uses.items()):
        if name.startswith("__") or judge.view.written_outside(name):
            continue
        for use in uses:
            if is_guarded(use) or not _settled(use) or (use.scope.symbol, name) in said:
                continue
            meant = [k for k in use.typed.possible if not asks_itself(use, k)]
            if any(_has(judge, k, name) for k in meant) or any(strangers(judge.view, use)):
                continue
            lacking = [
                k
                for k in meant
                if k is not k.root and judge.view.exposure(k, name).kind == "absent"
            ]
            if lacking:
                said.add((use.scope.symbol, name))
                yield _diagnose(judge, use, lacking)
    yield from _unread(judge)


def _settled(use: Use) -> bool:
    """Whether all that can be asked is known: any backend, or what the asking class holds.

    That a variable of the same name is declared as one class elsewhere says nothing of this one.
    """
    return any(k is k.root for k in use.typed.classes) or (
        roots_of(use.base) == use.scope.receiver != ""
    )


def _has(judge: Judge, klass: Klass, name: str) -> bool:
    """Whether instances of ``klass`` may have the name, a base by another import included.

    A wrapper that answers for any name has what it wraps has.
    """
    kind = judge.view.exposure(klass, name).kind
    if kind == "dynamic":
        return judge.view.wrapper(klass) is None
    return kind != "absent" or any(
        name in other.members or name in other.stored
        for parent in klass.mro
        for other in parent.alternatives
    )


def _diagnose(judge: Judge, use: Use, lacking: list[Klass]) -> Diagnostic:
    name, scope = use.name, use.scope
    verb = "calls" if use.kind == "call" else "reads"
    root = lacking[0].root
    assert root is not None
    handed = scope.function.name == name and scope.klass is not None
    residue = f"{scope.symbol} is left over" if handed else f"{name} was renamed or removed"
    callers = judge.view.callers_of(scope.klass, name) if handed and scope.klass else ()
    unreached = handed and not any(u.scope.path not in judge.view.defining for u in callers)
    close = nearest(name, {n for n in root.members if not n.startswith("_")})
    reasons = [f"{len(lacking)} backend{'s' * (len(lacking) != 1)} can be meant, none has it"]
    if close is not None:
        reasons.append(f"the nearest name that {root.name} has is {close}")
    return Diagnostic(
        "MLA306",
        "warning" if unreached else "error",
        f"{scope.symbol} {verb} {name} on a backend, which no backend has: AttributeError",
        judge.places.at(scope.path, use.line, name),
        scope.symbol,
        (Related(judge.places.klass(lacking[0]), f"{lacking[0].name} defines no {name}"),),
        tuple(reasons),
        f"{'Latent: no call was found that reaches it. ' if unreached else ''}"
        f"It seems that {residue}: ask for what the backends have, or drop it.",
    )


def _unread(judge: Judge) -> Iterator[Diagnostic]:
    """Class attributes that nothing in the tree reads, of almost a name that a parent declares."""
    asked = judge.project.walked.asked
    declared = Counter(a.name for klass in judge.project.classes for a in klass.facts.attrs)
    for klass in judge.classes:
        for attr in klass.facts.attrs if klass.complete and klass.root is not None else ():
            if attr.value is None or attr.name in asked:
                continue
            above = [m for k in klass.mro[1:] for m in k.own.values() if m.attr is not None]
            close = nearest(attr.name, {m.name for m in above})
            meant = next((m for m in above if m.name == close), None)
            if meant is None or attr.name == close or meant.name in klass.own:
                continue
            if not _stands_elsewhere(judge, attr.name, declared[attr.name]):
                yield _unheard(judge, klass, attr, meant, asked.get(meant.name))


def _stands_elsewhere(judge: Judge, name: str, declarations: int) -> bool:
    """Whether the code of the tree has the word anywhere but in so many declarations."""
    plain, found = name.encode(), 0
    lines = re.compile(rb"^[^#\n]*\b%b\b" % plain, re.MULTILINE)
    for data in judge.sources.values():
        found += len(lines.findall(data)) if plain in data else 0
        if found > declarations:
            return True
    return False


def _is_replaced(klass: Klass, reader: Site) -> bool:
    """Whether ``klass`` does not run the method of a parent that reads."""
    if reader.klass is None or not klass.is_a(reader.klass):
        return False
    member = klass.members.get(reader.function.name)
    return member is not None and member.function is not reader.function


def _unheard(
    judge: Judge, klass: Klass, attr: ClassAttr, meant: Member, reader: tuple[Site, int] | None
) -> Diagnostic:
    related = [Related(judge.places.member(meant), f"{meant.symbol} is declared here")]
    if reader is not None and _is_replaced(klass, reader[0]):
        reader = None
    if reader is not None:
        scope, line = reader
        said = f"{scope.symbol} reads {meant.name}"
        related.append(judge.places.related(scope.path, line, meant.name, said))
    return Diagnostic(
        "MLA306",
        "error" if reader is not None else "warning",
        f"{klass.name} sets {attr.name}, which nothing reads; {meant.owner.name} declares "
        f"{meant.name}, which stays as it is there",
        judge.places.at(klass.path, attr.line, attr.name),
        f"{klass.qualname}.{attr.name}",
        tuple(related),
        (),
        f"{'' if reader is not None else f'Latent: nothing reads its {meant.name} either. '}"
        f"It seems that {attr.name} was renamed: set {meant.name}, or drop it.",
    )
