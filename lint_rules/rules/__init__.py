"""The rules, by code. Each is a generator over the linked project; its page stands beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lint_rules.judge import Judge
from lint_rules.rules import (
    borrowed_method,
    duplicate_hook,
    hook_call_mismatch,
    hook_signature_drift,
    never_stored_attribute,
    over_promising_delegation,
    partial_parent_init,
    removed_hook,
    return_arity_drift,
    sibling_call_mismatch,
    skipped_parent_init,
    stand_in_gap,
    uneven_branches,
    unexposed_wrapper_attribute,
    unexposed_wrapper_hook,
    unguarded_attribute,
    unimplemented_hook,
    unpaired_hook,
    unread_fallback,
    unset_in_some_mode,
    wrapper_route_drift,
)
from mla_guard.diagnostic import Diagnostic

__all__ = ["RULES"]

RULES: dict[str, Callable[[Judge], Iterator[Diagnostic]]] = {
    "MLA101": hook_signature_drift.check,
    "MLA102": hook_call_mismatch.check,
    "MLA103": duplicate_hook.check,
    "MLA104": sibling_call_mismatch.check,
    "MLA105": return_arity_drift.check,
    "MLA201": skipped_parent_init.check,
    "MLA202": unguarded_attribute.check,
    "MLA203": partial_parent_init.check,
    "MLA204": borrowed_method.check,
    "MLA205": unset_in_some_mode.check,
    "MLA206": uneven_branches.check,
    "MLA207": never_stored_attribute.check,
    "MLA301": unexposed_wrapper_hook.check,
    "MLA302": unexposed_wrapper_attribute.check,
    "MLA303": over_promising_delegation.check,
    "MLA304": wrapper_route_drift.check,
    "MLA305": unimplemented_hook.check,
    "MLA306": removed_hook.check,
    "MLA307": stand_in_gap.check,
    "MLA308": unpaired_hook.check,
    "MLA309": unread_fallback.check,
}
