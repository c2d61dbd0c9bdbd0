"""Take every route, delegating method and forwarded flag from every wrapper, one at a time.

``python -m tests.runtime.lost_hooks [substring ...]`` works on a copy of the sources. Each time the
linter and ``mla_guard.verify`` must name the wrapper under MLA304, and a test must fail: for a lost
method or flag with the guard switched off, so that it is the behaviour that is missed; for a route,
which changes no behaviour, the one that constructs the wrapper. Exits 1 if one goes unnoticed.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mla_guard.routes import ROUTES
from mla_runtime import AttentionBackend
from tests.runtime.composites import HOOKS
from tests.runtime.mutate import ROOT, copied

WRAPPERS = {
    "mla_runtime/hybrid_linear.py": "HybridLinearAttnBackend",
    "mla_runtime/hybrid_attn.py": "HybridAttnBackend",
    "mla_runtime/two_batch_overlap.py": "TboAttnBackend",
}
TESTS = "tests/runtime/test_composites.py"
FLAGS = [
    name
    for name in vars(AttentionBackend)
    if not name.startswith("_") and not callable(vars(AttentionBackend)[name])
]
CHAINS = {
    "HybridLinearAttnBackend": "hybrid linear",
    "HybridAttnBackend": "hybrid attn",
    "TboAttnBackend": "tbo",
}


@dataclass(frozen=True)
class Removal:
    """Lines ``first`` to ``last`` of a wrapper's file: the route, method or flag ``name``."""

    file: str
    wrapper: str
    kind: str
    name: str
    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.wrapper}: {self.kind} {self.name}"

    @property
    def test(self) -> str:
        """The test that must fail."""
        chain = CHAINS[self.wrapper]
        if self.kind == "route":
            return f"{TESTS}::test_every_cell[init_forward_metadata-{chain}-torch]"
        if self.kind == "method":
            return f"{TESTS}::test_every_cell[{self.name}-{chain}-torch]"
        if self.name in ("needs_cpu_seq_lens", "supports_cuda_graph"):
            return f"{TESTS}::test_needs_are_joined_and_capabilities_shared"
        return f"{TESTS}::test_flags_come_from_the_right_child[{chain}]"


def removals() -> Iterator[Removal]:
    """Everything that can be taken from the wrappers, read from their sources."""
    for file, wrapper in WRAPPERS.items():
        tree = ast.parse((ROOT / file).read_text())
        body = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == wrapper).body
        for statement in body:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.value, ast.Dict):
                assert ast.unparse(statement.target) == ROUTES
                for key, value in zip(statement.value.keys, statement.value.values, strict=True):
                    assert isinstance(key, ast.Constant)
                    yield _removal(file, wrapper, "route", str(key.value), key, value)
            elif isinstance(statement, ast.FunctionDef) and statement.name in HOOKS:
                yield _removal(file, wrapper, "method", statement.name, statement, statement)
            elif isinstance(statement, ast.FunctionDef) and statement.name == "__init__":
                for stored in statement.body:
                    name = ast.unparse(stored).partition(" = ")[0].removeprefix("self.")
                    if name in FLAGS:
                        yield _removal(file, wrapper, "flag", name, stored, stored)


def _removal(
    file: str, wrapper: str, kind: str, name: str, first: ast.AST, last: ast.AST
) -> Removal:
    start, end = getattr(first, "lineno", 0), getattr(last, "end_lineno", 0)
    return Removal(file, wrapper, kind, name, start, end)


def try_one(removal: Removal) -> tuple[str, str, str]:
    """What the linter, ``verify`` and the tests say; ``MISSED`` where they do not notice."""
    with tempfile.TemporaryDirectory(prefix="removed-") as scratch:
        tree = Path(scratch)
        copied(tree)
        path = tree / removal.file
        lines = path.read_text().splitlines(keepends=True)
        del lines[removal.first - 1 : removal.last]
        path.write_text("".join(lines))
        lint = _run(tree, ["-m", "mla_guard", "check", "mla_runtime", "--select", "MLA304"])
        module = removal.file.removesuffix(".py").replace("/", ".")
        verify = _run(tree, ["-m", "mla_guard", "verify", f"{module}:{removal.wrapper}"])
        off = {} if removal.kind == "route" else {"MLA_GUARD": "off"}
        pytest = ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", removal.test]
        tests = _run(tree, pytest, off)
    told = [
        "MLA304" if p.returncode == 1 and f"{removal.wrapper}" in p.stdout and
        removal.name in p.stdout and "MLA304" in p.stdout else "MISSED"
        for p in (lint, verify)
    ]  # fmt: skip
    return told[0], told[1], "fail" if tests.returncode == 1 else "MISSED"


def _run(
    tree: Path, arguments: Sequence[str], environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=tree,
        env={**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
    )


def main(wanted: Sequence[str]) -> int:
    everything = list(removals())
    chosen = [r for r in everything if not wanted or any(word in str(r) for word in wanted)]
    unnoticed = 0
    print(f"{'removed':<76}{'linter':<8}{'verify':<8}test")
    for removal in chosen:
        noticed = try_one(removal)
        unnoticed += "MISSED" in noticed
        print(f"{removal!s:<76}{noticed[0]:<8}{noticed[1]:<8}{noticed[2]}", flush=True)
    by_kind = {k: sum(r.kind == k for r in chosen) for k in ("route", "method", "flag")}
    counts = ", ".join(f"{count} {kind}s" for kind, count in by_kind.items())
    owed = (len(HOOKS) + len(FLAGS)) * len(WRAPPERS)
    print(
        f"{len(chosen)} removals ({counts}), {unnoticed} unnoticed; the contract owes "
        f"({len(HOOKS)} hooks + {len(FLAGS)} flags) x {len(WRAPPERS)} wrappers = {owed}"
    )
    return 1 if unnoticed else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
