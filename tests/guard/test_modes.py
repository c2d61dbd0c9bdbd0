"""MLA_GUARD=off, warn and raise; read once, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

PROGRAM = """
import warnings
from mla_guard import HookContractError, guard, hook, status

@guard
class Base:
    @hook(requires="ready")
    def run(self, x):
        raise NotImplementedError

class Good(Base):
    ready = True
    def run(self, x):
        return x

class Bad(Base):
    def run(self, x, y=1, *, z):
        return x

untouched = "__init__" not in vars(Base)
originals = [vars(cls)["run"] for cls in (Good, Bad)]
good, bad = Good(), Bad()
armed = [vars(cls)["run"] is not o for cls, o in zip((Good, Bad), originals)]
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    try:
        said = [good.run(1), bad.run(2, z=3), bad.run(4, z=3)]
    except HookContractError as error:
        said = [d.code for d in error.diagnostics]
gone = [vars(cls)["run"] is o for cls, o in zip((Good, Bad), originals)]
print(untouched, armed, said, [w.category.__name__ for w in caught], gone)
"""


def under(value: str | None) -> str:
    environment = {k: v for k, v in os.environ.items() if k != "MLA_GUARD"}
    if value is not None:
        environment["MLA_GUARD"] = value
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(PROGRAM)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("off", "True [False, False] [1, 2, 4] [] [True, True]"),
        ("warn", "False [True, True] [1, 2, 4] ['HookContractWarning'] [True, True]"),
        ("raise", "False [True, True] ['MLA101', 'MLA202'] [] [True, False]"),
        (None, "False [True, True] ['MLA101', 'MLA202'] [] [True, False]"),
        ("on", "ValueError: MLA_GUARD must be off, warn or raise, not 'on'"),
        ("", "ValueError: MLA_GUARD must be off, warn or raise, not ''"),
    ],
)
def test_the_switch(value: str | None, expected: str) -> None:
    assert under(value) == expected
