"""Hierarchies found without configuration: inner families, classes handed out, plugins."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from lint_rules.config import load_config
from lint_rules.run import check

HOST = """
from abc import ABC, abstractmethod
from typing import Generic, TypeVar

M = TypeVar("M")

class AttentionBackend(ABC):
    @staticmethod
    def get_impl_cls() -> type["AttentionImplBase"]:
        raise NotImplementedError

    @staticmethod
    def get_builder_cls():
        raise NotImplementedError

class AttentionImplBase(ABC, Generic[M]):
    pass

class AttentionImpl(AttentionImplBase[M]):
    @abstractmethod
    def __init__(self, heads, scale, soft_cap=None, kind="decoder"):
        raise NotImplementedError

    @abstractmethod
    def forward(self, query, output):
        raise NotImplementedError

class AttentionMetadataBuilder(ABC, Generic[M]):
    supports_update = False

    def __init__(self, spec, names):
        self.spec = spec
        self.names = names

    def build(self, common{extra}):
        raise NotImplementedError
"""


def findings(top: Path, files: dict[str, str]) -> list[tuple[str, str]]:
    for name, text in files.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(dedent(text), encoding="utf-8")
    report = check([top], load_config([top]))
    assert report.failures == ()
    return [(d.code, d.symbol) for d in report.diagnostics]


def test_a_constructor_two_levels_up_that_is_never_reached(tmp_path: Path) -> None:
    found = findings(
        tmp_path,
        {
            "base.py": HOST.replace("{extra}", ""),
            "leaf.py": """
            from base import AttentionMetadataBuilder

            class Middle(AttentionMetadataBuilder[int]):
                def __init__(self, spec, names):
                    self.spec = spec

            class Leaf(Middle):
                def __init__(self, spec, names):
                    super().__init__(spec, names)

                def build(self, common):
                    return self.names
            """,
        },
    )
    assert found == [("MLA201", "Leaf.__init__")]


def test_a_class_that_is_handed_out_takes_the_order_of_its_base(tmp_path: Path) -> None:
    found = findings(
        tmp_path,
        {
            "base.py": HOST.replace("{extra}", ""),
            "leaf.py": """
            from base import AttentionBackend, AttentionImpl

            class GoodImpl(AttentionImpl[int]):
                def __init__(self, heads, scale, soft_cap=None, kind="decoder"):
                    self.soft_cap = soft_cap

                def forward(self, query, output):
                    return self.soft_cap

            class BadImpl(AttentionImpl[int]):
                def __init__(self, heads, scale, max_len=4096, kind="decoder"):
                    self.max_len = max_len

                def forward(self, query, output):
                    return self.max_len

            class Good(AttentionBackend):
                @staticmethod
                def get_impl_cls():
                    return GoodImpl

            class Bad(AttentionBackend):
                @staticmethod
                def get_impl_cls():
                    return BadImpl
            """,
            "layer.py": """
            from base import AttentionBackend

            def build(backend: type[AttentionBackend], heads, scale, soft_cap):
                impl_cls = backend.get_impl_cls()
                return impl_cls(heads, scale, soft_cap)
            """,
        },
    )
    assert found == [("MLA102", "BadImpl.__init__")]


@pytest.mark.parametrize(("version", "expected"), [("1", []), ("2", [("MLA101", "Mine.build")])])
def test_a_plugin_against_two_versions_of_its_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, expected: list[tuple[str, str]]
) -> None:
    """The host is an installed package that is never imported; findings are the plugin's alone."""
    site = tmp_path / f"site{version}"
    (site / "hostengine").mkdir(parents=True)
    extra = "" if version == "1" else ", fast=False"
    text = HOST.replace("{extra}", extra) + (
        "\n\nclass Theirs(AttentionMetadataBuilder[int]):\n"
        "    def build(self):\n        return None\n"
    )
    (site / "hostengine" / "__init__.py").write_text("raise RuntimeError('imported')\n", "utf-8")
    (site / "hostengine" / "base.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(site))
    plugin = tmp_path / f"plugin{version}"
    (plugin / "ours").mkdir(parents=True)
    (plugin / "pyproject.toml").write_text(
        '[tool.mla-guard]\nsrc = ["ours", "hostengine"]\n', encoding="utf-8"
    )
    (plugin / "ours" / "mine.py").write_text(
        "from hostengine.base import AttentionMetadataBuilder\n\n\n"
        "class Mine(AttentionMetadataBuilder[int]):\n"
        "    def build(self, common):\n        return common\n",
        encoding="utf-8",
    )
    target = plugin / "ours"
    report = check([target], load_config([target]))
    assert [(d.code, d.symbol) for d in report.diagnostics] == expected
