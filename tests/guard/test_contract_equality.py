"""One declaration, two readers: a contract read by import is the contract read by the linter."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import mla_guard
from lint_rules.declared import contract_of_source
from mla_guard import contract_of
from tests.field.wheels import unpacked

from .engine import loaded

ROOT = Path(mla_guard.__file__).parents[1]
BASE = "sglang.srt.layers.attention.base_attn_backend"


def guarded_classes() -> Iterator[tuple[str, str]]:
    """Modules and classes of the runtime that ``@guard`` or ``@hook`` make bases."""
    for path in sorted((ROOT / "mla_runtime").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                said = [ast.unparse(d) for d in node.decorator_list]
                said += [
                    ast.unparse(d) for f in node.body for d in getattr(f, "decorator_list", ())
                ]
                if any(d.startswith(("guard", "hook")) for d in said):
                    module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
                    yield module, node.name


def test_there_are_bases_in_the_repository() -> None:
    assert ("mla_runtime.base", "AttentionBackend") in set(guarded_classes())


@pytest.mark.parametrize(("module", "name"), sorted(guarded_classes()))
def test_every_base_of_the_repository(module: str, name: str) -> None:
    pytest.importorskip("torch")
    imported = importlib.import_module(module)
    path = ROOT.joinpath(*module.split(".")).with_suffix(".py")
    read = contract_of_source(path, name)
    assert contract_of(getattr(imported, name)) == read
    assert list(contract_of(getattr(imported, name)).hooks) == list(read.hooks)


@pytest.mark.field
@pytest.mark.parametrize(("version", "hooks"), [("0.5.13", 16), ("0.5.23", 25)])
def test_sglang(version: str, hooks: int) -> None:
    root = unpacked("sglang", version)
    path = root.joinpath(*BASE.split(".")).with_suffix(".py")
    with loaded(root, [BASE]) as modules:
        imported = contract_of(modules[BASE].AttentionBackend)
    assert imported == contract_of_source(path, "AttentionBackend")
    assert len(imported.hooks) == hooks
