"""Who may import whom: ``lint_rules -> mla_guard <- mla_runtime``, and nothing heavy by surprise.

Read off the sources, and once more off what the interpreter really loads.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import mla_guard

ROOT = Path(mla_guard.__file__).parents[1]
READ_ONLY = ROOT / "lint_rules" / "demo" / "engine"


class Allowed(NamedTuple):
    """What a package may import besides the standard library and itself."""

    at_import: frozenset[str] = frozenset()
    inside_functions: frozenset[str] = frozenset()


PACKAGES = {
    "mla_guard": Allowed(inside_functions=frozenset({"tomli", "tomllib"})),
    "lint_rules": Allowed(
        at_import=frozenset({"libcst", "mla_guard", "msgspec"}),
        inside_functions=frozenset({"pathspec", "tomli", "tomllib"}),
    ),
    "mla_runtime": Allowed(
        at_import=frozenset({"mla_guard", "torch"}), inside_functions=frozenset({"flashinfer"})
    ),
}
CALLS_THE_LINTER = Allowed(inside_functions=frozenset({"lint_rules"}))
SPEAKS_WITH_EDITORS = Allowed(at_import=frozenset({"lsprotocol", "pygls"}))
WRITES_KERNELS = Allowed(at_import=frozenset({"triton"}))
EXCEPTIONS = {
    "mla_guard/cli.py": CALLS_THE_LINTER,
    "mla_guard/results.py": CALLS_THE_LINTER,
    "mla_guard/server_cli.py": CALLS_THE_LINTER,
    "lint_rules/server/diagnostics.py": SPEAKS_WITH_EDITORS,
    "lint_rules/server/offered.py": SPEAKS_WITH_EDITORS,
    "lint_rules/server/replaced.py": SPEAKS_WITH_EDITORS,
    "lint_rules/server/serve.py": SPEAKS_WITH_EDITORS,
    "lint_rules/server/session.py": SPEAKS_WITH_EDITORS,
    "lint_rules/server/texts.py": SPEAKS_WITH_EDITORS,
    "mla_runtime/kernels/gluon_fp8_decode.py": WRITES_KERNELS,
    "mla_runtime/kernels/gluon_fp8_tiles.py": WRITES_KERNELS,
    "mla_runtime/kernels/triton_indices.py": WRITES_KERNELS,
    "mla_runtime/kernels/triton_shares.py": WRITES_KERNELS,
    "mla_runtime/kernels/triton_states.py": WRITES_KERNELS,
    "mla_runtime/kernels/triton_store.py": WRITES_KERNELS,
    "mla_guard/completion.py": Allowed(inside_functions=frozenset({"shtab"})),
}


class Import(NamedTuple):
    module: str
    line: int
    lazy: bool


def imports(path: Path) -> Iterator[Import]:
    """The absolute imports of a file; those for type checkers alone are left out."""

    def visit(node: ast.AST, lazy: bool) -> Iterator[Import]:
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, node.lineno, lazy) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            assert node.module is not None
            yield Import(node.module, node.lineno, lazy)
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for otherwise in node.orelse:
                yield from visit(otherwise, lazy)
        else:
            inside = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            for child in ast.iter_child_nodes(node):
                yield from visit(child, lazy or inside)

    yield from visit(ast.parse(path.read_text(encoding="utf-8")), lazy=False)


def sources(package: str) -> list[Path]:
    return [p for p in sorted((ROOT / package).rglob("*.py")) if READ_ONLY not in p.parents]


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_import_only_what_they_may(package: str) -> None:
    forbidden = []
    for path in sources(package):
        name = path.relative_to(ROOT).as_posix()
        special = EXCEPTIONS.get(name, Allowed())
        at_import = PACKAGES[package].at_import | special.at_import | {package}
        lazily = at_import | PACKAGES[package].inside_functions | special.inside_functions
        for found in imports(path):
            top = found.module.partition(".")[0]
            allowed = lazily if found.lazy else at_import
            if top not in allowed and top not in sys.stdlib_module_names and top != "__future__":
                forbidden.append(f"{name}:{found.line}: {found.module}")
    assert forbidden == []


def test_the_linter_uses_the_contract_side_only() -> None:
    found = {
        i.module for path in sources("lint_rules") for i in imports(path) if "mla_guard" in i.module
    }
    assert found <= {
        "mla_guard",
        "mla_guard.contract",
        "mla_guard.diagnostic",
        "mla_guard.drift",
        "mla_guard.dropping",
        "mla_guard.route_breaches",
        "mla_guard.routes",
        "mla_guard.touched",
        "mla_guard.words",
    }


def modules(package: str) -> list[str]:
    """Every importable module of a package, ``__main__`` and the language server aside."""
    names = [
        path.relative_to(ROOT).with_suffix("").parts
        for path in sources(package)
        if EXCEPTIONS.get(path.relative_to(ROOT).as_posix()) != SPEAKS_WITH_EDITORS
    ]
    dotted = (".".join(parts).removesuffix(".__init__") for parts in names)
    return [name for name in dotted if not name.endswith("__main__")]


def loaded(package: str, *options: str) -> set[str]:
    """The top-level modules that are there once every module of ``package`` is imported."""
    program = (
        f"import sys; sys.path[:0] = [{str(ROOT)!r}]; import {', '.join(modules(package))}; "
        "print(*sys.modules)"
    )
    command = [sys.executable, *options, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stdout.split()}


def test_the_guard_loads_the_standard_library_only() -> None:
    without_site_packages = "-S"
    found = loaded("mla_guard", without_site_packages) - sys.stdlib_module_names
    assert found == {"__main__", "mla_guard"}


def test_the_linter_loads_no_torch_no_configuration_reader_and_no_language_server() -> None:
    found = loaded("lint_rules")
    assert {"lint_rules", "mla_guard", "libcst", "msgspec"} <= found
    assert not {"torch", "mla_runtime", "pathspec", "tomli", "tomllib"} & found
    assert not {"lsprotocol", "pygls"} & found
