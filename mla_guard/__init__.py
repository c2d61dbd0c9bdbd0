"""What an attention backend owes its engine, and the guard that holds it to it.

Importing this package loads the standard library only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .contract import Clause, Contract, Hook, contract_of, hook
from .delegate import delegate, exposes, route
from .errors import (
    HookAttributeError,
    HookCallError,
    HookContractError,
    HookContractWarning,
)
from .guard import guard, guard_hierarchy, unguard_hierarchy

if TYPE_CHECKING:
    from .routes import Routes
    from .verification import Armed, Status, status, verify

__version__ = "0.1.0"

__all__ = [
    "Armed",
    "Clause",
    "Contract",
    "Hook",
    "HookAttributeError",
    "HookCallError",
    "HookContractError",
    "HookContractWarning",
    "Routes",
    "Status",
    "contract_of",
    "delegate",
    "exposes",
    "guard",
    "guard_hierarchy",
    "hook",
    "route",
    "status",
    "unguard_hierarchy",
    "verify",
]


def __getattr__(name: str) -> Any:
    """Load what only tests and tools use when it is asked for."""
    if name in ("Armed", "Status", "status", "verify"):
        from . import verification

        return getattr(verification, name)
    if name == "Routes":
        from . import routes

        return routes.Routes
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
