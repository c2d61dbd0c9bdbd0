"""Which classes are taken to stand in for each other: what functions return, and what is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from lint_rules.config import Config
from lint_rules.discover import scan
from lint_rules.library import Library
from lint_rules.run import check
from lint_rules.tree import list_files

PAIR = """
class Builtin:
    def is_tree(self): ...
    def is_chain(self): ...
    def depth(self): ...
    def width(self): ...


class Plugin:
    def is_tree(self): ...
    def is_chain(self): ...
    def depth(self): ...
"""
BACKENDS = """
class AttentionBackend:
    def forward(self, q): ...


class PlainBackend(AttentionBackend):
    def forward(self, q): ...
"""


def pairs(tmp_path: Path, *sources: str) -> tuple[tuple[str, str], ...]:
    for index, source in enumerate(sources):
        (tmp_path / f"module{index}.py").write_text(source, encoding="utf-8")
    with Library(list_files([tmp_path], Config()), None, 0) as library:
        return scan(library, ["AttentionBackend"]).stand_ins


@pytest.mark.parametrize(
    "annotation",
    [
        "Builtin | Plugin",
        "Union[Builtin, Plugin]",
        "Optional[Union[Builtin, Plugin]]",
        "typing.Union[Builtin, Plugin, None]",
        "Union['Builtin', \"Plugin\"]",
        "'Builtin | Plugin'",
        "Union[\n    engine.Builtin,\n    engine.plugins.Plugin,\n]",
        "engine.Builtin | engine.plugins.Plugin | None",
    ],
)
def test_what_a_function_returns_makes_a_pair(tmp_path: Path, annotation: str) -> None:
    made = f"def make(name) -> {annotation}:\n    return REGISTRY[name]\n"
    assert pairs(tmp_path, PAIR, made) == (("Builtin", "Plugin"),)


@pytest.mark.parametrize(
    "annotation",
    ["Builtin", "Builtin | None", "Builtin | int", "dict[str, Builtin]", "Builtin | Builtin"],
)
def test_anything_else_does_not(tmp_path: Path, annotation: str) -> None:
    made = f"def make(name) -> {annotation}:\n    return REGISTRY[name]\n"
    assert pairs(tmp_path, PAIR, made) == ()


def test_a_parameter_makes_no_pair(tmp_path: Path) -> None:
    assert pairs(tmp_path, PAIR, "def take(x: Builtin | Plugin) -> None: ...\n") == ()


def test_two_classes_of_one_name_make_no_pair(tmp_path: Path) -> None:
    made = "def make(name) -> Builtin | Plugin: ...\n"
    assert pairs(tmp_path, PAIR, made, "class Plugin:\n    pass\n") == ()


def test_a_common_base_class_makes_no_pair(tmp_path: Path) -> None:
    source = "class Base:\n    pass\n" + PAIR.replace(
        ":\n    def is_tree", "(Base):\n    def is_tree"
    )
    made = "def make(name) -> Builtin | Plugin: ...\n"
    assert pairs(tmp_path, source, made) == ()


def test_both_orders_are_one_pair(tmp_path: Path) -> None:
    made = "def a() -> Builtin | Plugin: ...\ndef b() -> Plugin | Builtin: ...\n"
    assert pairs(tmp_path, PAIR, made) == (("Builtin", "Plugin"),)


def test_a_pair_that_is_told(tmp_path: Path) -> None:
    (tmp_path / "engine.py").write_text(
        BACKENDS + PAIR + "\n\nclass Runner:\n    algorithm: Builtin\n\n"
        "    def start(self):\n        return self.algorithm.width()\n",
        encoding="utf-8",
    )
    told = Config(src=(tmp_path,), root=tmp_path, stand_ins=(("Builtin", "Plugin"),))
    assert [(d.code, d.severity, d.symbol) for d in check([tmp_path], told).diagnostics] == [
        ("MLA307", "warning", "Plugin.width")
    ]
    untold = Config(src=(tmp_path,), root=tmp_path)
    assert check([tmp_path], untold).diagnostics == ()


@pytest.mark.parametrize(("body", "expected"), [("return x", ["Plugin.depth"]), ("raise E", [])])
def test_two_interfaces_that_differ_have_callers_of_their_own(
    tmp_path: Path, body: str, expected: list[str]
) -> None:
    (tmp_path / "engine.py").write_text(
        f"{BACKENDS}\n\n"
        f"class Builtin:\n    def depth(self, x):\n        {body}\n\n\n"
        f"class Plugin:\n    def depth(self, x, y):\n        {body}\n\n\n"
        "class Runner:\n    algorithm: Builtin\n\n"
        "    def start(self):\n        return self.algorithm.depth(1)\n",
        encoding="utf-8",
    )
    told = Config(src=(tmp_path,), root=tmp_path, stand_ins=(("Builtin", "Plugin"),))
    assert [d.symbol for d in check([tmp_path], told).diagnostics] == expected


def test_a_pair_of_which_one_is_a_backend_is_left_to_the_other_rules(tmp_path: Path) -> None:
    (tmp_path / "engine.py").write_text(BACKENDS + PAIR, encoding="utf-8")
    told = Config(src=(tmp_path,), root=tmp_path, stand_ins=(("PlainBackend", "Plugin"),))
    assert check([tmp_path], told).diagnostics == ()
