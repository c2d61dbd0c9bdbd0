"""Put a class hierarchy under guard, and take it out again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, overload

from .book import ROOTS, Terms
from .contract import name_of
from .mode import mode
from .routes import Combination

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["guard", "guard_hierarchy", "unguard_hierarchy"]

C = TypeVar("C", bound=type)


@overload
def guard(cls: C, /) -> C: ...


@overload
def guard(*, flags: dict[str, Combination] | None = None) -> Callable[[C], C]: ...


def guard(cls: Any = None, /, *, flags: dict[str, Combination] | None = None) -> Any:
    """Guard the hooks of a base class and of its subclasses, present and future.

    On the first call of a hook, the class of the instance is verified: required hooks exist and
    signatures accept what was promised; on the first call per instance, hook and phase the clauses
    of :func:`~mla_guard.contract.hook` are. What is verified runs the plain function from then on.
    Under ``MLA_GUARD=off`` the class is returned untouched.

    A breach raises :class:`~mla_guard.errors.HookContractError` before the hook's body runs
    (``ensures``: after it), and again on the next call.
    """
    if cls is None:
        return lambda target: _guarded(target, Terms(flags=flags or {}))
    return _guarded(cls, Terms(flags=flags or {}))


def guard_hierarchy(base: type, profile: str | Path | Mapping[str, Any] | None = None) -> None:
    """Guard an engine's own classes from outside, those that exist and those to come.

    ``profile`` is the name of one that comes with the package, a TOML file, or a table with the
    same keys. Instances that exist already are found and guarded too.

    Does nothing under ``MLA_GUARD=off``. Raises :class:`ValueError` for a base that is guarded
    already and for a profile that is none.
    """
    from .profile import load_profile, terms_of  # reading TOML is for those who have some

    if profile is None or isinstance(profile, Mapping):
        terms = terms_of(profile or {})
    else:
        terms = load_profile(profile)
    _guarded(base, terms)
    if base in ROOTS:
        from .hierarchy import arm_existing

        arm_existing(base)


def unguard_hierarchy(base: type) -> None:
    """Restore every class below ``base`` exactly.

    Does nothing under ``MLA_GUARD=off``. Raises :class:`ValueError` for a base that is not guarded.
    """
    if mode() == "off":
        return
    if base not in ROOTS:
        raise ValueError(f"{name_of(base)} is not guarded")
    from .hierarchy import take_out

    take_out(base)


def _guarded(cls: C, terms: Terms) -> C:
    if mode() == "off":
        return cls
    # What guards is loaded with the first class that is: an import of the package stays cheap.
    from .hierarchy import put_under_guard

    return put_under_guard(cls, terms)
