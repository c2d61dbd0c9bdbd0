"""The guard's checks as a function, and what is still to be checked."""

from __future__ import annotations

from typing import Any, NamedTuple

from .arming import STATES, met, state_of
from .book import ROOTS, declarations, resolve
from .clauses import broken
from .contract import at_name, name_of, place_of
from .diagnostic import Diagnostic
from .errors import HookContractError
from .judge import class_breaches, clauses_of, held_to
from .mode import mode
from .tree import tree_breaches, within

__all__ = ["Armed", "Status", "breaches", "status", "verify"]


class Armed(NamedTuple):
    """One thing that is still to be verified, or that waits for what is to come.

    ``what`` is ``"signatures"``, ``"wrapped"`` (what an instance wraps) or the kind of a clause,
    ``text`` and ``phase`` are those of the clause, ``postponed`` is why a due check was put off.
    """

    class_name: str
    what: str
    hook: str = ""
    text: str = ""
    phase: str | None = None
    postponed: str = ""


class Status(NamedTuple):
    """What is left to verify.

    ``verified``: it is guarded, and nothing is armed. ``installed``: the hooks that a stand-in
    intercepts now; one that a class above intercepts for its own instances is named with that.
    """

    verified: bool
    armed: tuple[Armed, ...]
    installed: tuple[str, ...]


def breaches(target: Any) -> tuple[Diagnostic, ...]:
    """Every breach of a class, or of an instance and what it wraps."""
    if isinstance(target, type):
        return tuple(class_breaches(target))
    cls = type(target)
    found = class_breaches(cls)
    clauses = clauses_of(cls)
    for name in clauses:
        if (resolved := resolve(cls, name)) is None:
            continue
        for clause in clauses.get(name, ()):
            if clause.kind == "requires":
                breach = broken(
                    clause,
                    target,
                    {},
                    symbol=f"{name_of(cls)}.{name}",
                    place=at_name(place_of(resolved[1]), name),
                )
                if breach is not None:
                    found.append(held_to(breach, cls, name, clause))
    found += tree_breaches(target)
    for inner in within(target):
        found += class_breaches(type(inner))
    return tuple({(d.code, d.message, d.place): d for d in found}.values())


def verify(target: Any) -> None:
    """Check a class, or an instance and the tree of what it wraps, without calling a hook.

    Clauses about a call (``assumes``, ``after``, ``ensures``) have none to judge. Raises
    :class:`HookContractError` with every breach, and :class:`TypeError` where the class has no
    guarded base and nothing could be checked. Does nothing under ``MLA_GUARD=off``.
    """
    if mode() == "off":
        return
    cls = target if isinstance(target, type) else type(target)
    if not declarations(cls):
        raise TypeError(f"{name_of(cls)} has no guarded base: nothing to verify")
    if found := breaches(target):
        raise HookContractError(found)


def status(target: Any) -> Status:
    """What is still to be verified about a class or an instance."""
    cls = target if isinstance(target, type) else type(target)
    if not any(k in ROOTS for k in cls.__mro__):
        return Status(False, (), ())
    state = STATES.get(cls) or state_of(cls)
    name = name_of(cls)
    armed = [] if state.verified else [Armed(name, "signatures")]
    if target is not cls and (record := state.records.get(id(target))) is not None:
        if record.tree:
            armed.append(Armed(name, "wrapped"))
        armed += [
            Armed(name, c.kind, hook, c.text, c.phase, record.postponed.get(c, ""))
            for hook, clauses in record.pending.items()
            for c in clauses
        ]
    installed = list(state.installed)
    for hook in state.hooks:
        if hook not in vars(cls) and (above := met(cls, hook)) is not None:
            installed.append(f"{name_of(above.cls)}.{hook}")
    return Status(not armed, tuple(armed), tuple(sorted(installed)))
