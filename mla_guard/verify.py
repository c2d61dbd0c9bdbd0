"""The guard's checks as a function, and what is still to be checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .arming import STATES, state_of
from .book import ROOTS, declarations, resolve
from .clauses import broken
from .contract import place_of
from .diagnostic import Diagnostic
from .errors import HookContractError
from .judge import class_breaches

__all__ = ["Armed", "Status", "breaches", "status", "verify"]


@dataclass(frozen=True, slots=True)
class Armed:
    """One thing that is still to be verified, or that waits for what is to come.

    ``what`` is ``"signatures"``, ``"wrapped"`` (what an instance wraps) or the kind of a clause,
    ``text`` and ``phase`` are those of the clause, ``postponed`` why a due check was put off.
    """

    class_name: str
    what: str
    hook: str = ""
    text: str = ""
    phase: str | None = None
    postponed: str = ""


@dataclass(frozen=True, slots=True)
class Status:
    """``verified``: nothing is armed. ``installed``: hooks that a stand-in intercepts now."""

    verified: bool
    armed: tuple[Armed, ...]
    installed: tuple[str, ...]


def breaches(target: Any) -> tuple[Diagnostic, ...]:
    """Every breach of a class, or of an instance and what it wraps."""
    if isinstance(target, type):
        return tuple(class_breaches(target))
    cls = type(target)
    found = class_breaches(cls)
    for name, declared_by in declarations(cls).items():
        if (resolved := resolve(cls, name)) is None:
            continue
        for clause in dict.fromkeys(c for _, h in declared_by for c in h.clauses):
            if clause.kind == "requires":
                breach = broken(
                    clause,
                    target,
                    {},
                    symbol=f"{cls.__qualname__}.{name}",
                    place=place_of(resolved[1]),
                )
                found += [breach] if breach is not None else []
    return tuple(found)


def verify(target: Any) -> None:
    """Check a class, or an instance and the tree of what it wraps, without calling a hook.

    Clauses about a call (``assumes``, ``after``, ``ensures``) have none to judge. Raises
    :class:`HookContractError` with every breach, and :class:`TypeError` where the class has no
    guarded base and nothing could be checked.
    """
    cls = target if isinstance(target, type) else type(target)
    if not declarations(cls):
        raise TypeError(f"{cls.__qualname__} has no guarded base: nothing to verify")
    if found := breaches(target):
        raise HookContractError(found)


def status(target: Any) -> Status:
    """What is still to be verified about a class or an instance."""
    cls = target if isinstance(target, type) else type(target)
    if not any(k in ROOTS for k in cls.__mro__):
        return Status(True, (), ())
    state = STATES.get(cls) or state_of(cls)
    name = cls.__qualname__
    armed = [] if state.verified else [Armed(name, "signatures")]
    if target is not cls and (record := state.records.get(id(target))) is not None:
        if record.tree:
            armed.append(Armed(name, "wrapped"))
        armed += [
            Armed(name, c.kind, hook, c.text, c.phase, record.postponed.get(c, ""))
            for hook, clauses in record.pending.items()
            for c in clauses
        ]
    return Status(not armed, tuple(armed), tuple(sorted(state.installed)))
