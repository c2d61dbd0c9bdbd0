"""MLA302: a wrapper that does not expose an attribute or class flag which callers read."""

from __future__ import annotations

from collections.abc import Iterator

from lint_rules.judge import Judge
from lint_rules.rules.unexposed_wrapper_hook import diagnose
from mla_guard.diagnostic import Diagnostic

__all__ = ["check"]


def check(judge: Judge) -> Iterator[Diagnostic]:
    for gap in judge.gaps:
        if not gap.is_hook:
            yield diagnose(judge, gap, "MLA302")
