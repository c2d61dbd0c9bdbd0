"""What a breach raises."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

from .diagnostic import Diagnostic
from .mode import Mode

__all__ = [
    "HookAttributeError",
    "HookCallError",
    "HookContractError",
    "HookContractWarning",
    "refuse",
]


class HookContractWarning(UserWarning):
    """A breach under ``MLA_GUARD=warn``."""


class HookContractError(Exception):
    """A class, an instance or a call broke a hook's contract.

    ``diagnostics`` holds every breach that was found; the message is their text, which is what the
    linter prints for the same fault. Calling a hook raises one of the two subclasses where the
    first breach is one that Python itself would have answered with :class:`TypeError` or
    :class:`AttributeError`. Reading a property or probing an attribute never does: ``hasattr``,
    ``getattr`` with a default and ``__getattr__`` would swallow it.
    """

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__(self.diagnostics)

    def __str__(self) -> str:
        return "\n".join(d.text() for d in self.diagnostics)


class HookCallError(HookContractError, TypeError):
    """A call, or the signature that it meets, broke the contract."""


class HookAttributeError(HookContractError, AttributeError):
    """An attribute or a hook that the contract promises does not exist."""


_KIN: dict[str, type[HookContractError]] = {
    "MLA101": HookCallError,
    "MLA102": HookCallError,
    "MLA202": HookAttributeError,
    "MLA301": HookAttributeError,
    "MLA302": HookAttributeError,
    "MLA303": HookAttributeError,
    "MLA401": HookAttributeError,
}


def refuse(diagnostics: Iterable[Diagnostic], *, mode: Mode, called: bool) -> None:
    """Raise the breaches, or warn of them.

    ``called`` says that a hook was called; a property read or a probe was not. Raises
    :class:`HookContractError`, or under ``mode="warn"`` issues :class:`HookContractWarning`.
    """
    found = tuple(diagnostics)
    kind = _KIN.get(found[0].code, HookContractError) if called else HookContractError
    if mode != "warn":
        raise kind(found)  # not kept in a name: the traceback would hold it, and the instance
    warnings.warn(str(kind(found)), HookContractWarning, stacklevel=2)
