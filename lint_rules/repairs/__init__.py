"""The repairs, by code: generators of edits that keep the behaviour, for the findings given."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from lint_rules.judge import Judge
from lint_rules.repairs import (
    hook_signature_drift,
    over_promising_delegation,
    skipped_parent_init,
    unexposed_wrapper_attribute,
    unexposed_wrapper_hook,
    unguarded_attribute,
)
from lint_rules.repairs.edits import Files, Repair
from mla_guard.diagnostic import Diagnostic

__all__ = ["REPAIRS"]

REPAIRS: dict[str, Callable[[Judge, Files, Collection[Diagnostic]], Iterator[Repair]]] = {
    "MLA101": hook_signature_drift.repairs,
    "MLA201": skipped_parent_init.repairs,
    "MLA202": unguarded_attribute.repairs,
    "MLA301": unexposed_wrapper_hook.repairs,
    "MLA302": unexposed_wrapper_attribute.repairs,
    "MLA303": over_promising_delegation.repairs,
}
