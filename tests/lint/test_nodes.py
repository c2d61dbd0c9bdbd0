"""The nodes that stand in for LibCST's say what LibCST's do."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import libcst as cst
import pytest

import lint_rules
from lint_rules import nodes
from lint_rules.nodes import lightened, own, parsed_whole, parsing, written

SOURCES = sorted(Path(next(iter(lint_rules.__path__))).glob("*.py"))
EVERYTHING = '''
import a.b as c, d
from . import (e, f as g)
from .h import *
@deco(x={"k": 1}, *y, **z)
class K(Base[int], metaclass=M):
    """text"""
    a: int = 1
    b: "c.D | None"
    async def m(self, p, /, q: int = 0, *r, s, t=1, **u) -> list[str]:
        async with w() as v, x:
            await y
        async for i in j:
            yield i
        else:
            return (yield)
        if (n := len(p)) > 1 and not q or r is not None:
            del p[0], q.x
        elif s in t not in u:
            assert s, f"{s!r:>{t}} {u}" 'and' "more"
        else:
            raise E(1) from None
        try:
            pass
        except (A, B) as e:
            global g
        except:
            nonlocal_ = -1 if a else +1.5j
        finally:
            x[1:2, ::3, ...] = [*a, 2] + (3,) @ {4, *b}
        while True:
            x += lambda *a, b=1: {**a, "c": b}
            break
        match p:
            case {"k": [1, *_]} | K(a=2) | None if q:
                x = [i for i in j if i for k in i]
            case str() as s:
                y = {i: j for i, j in k}, {i for i in j}, (i for i in j)
'''


def pairs(mine: object, theirs: object) -> Iterator[tuple[nodes.Node, cst.CSTNode]]:
    """Each node beside LibCST's own, field by field."""
    if isinstance(theirs, (list, tuple)):
        assert isinstance(mine, tuple)
        for a, b in zip(mine, theirs, strict=True):
            yield from pairs(a, b)
    elif isinstance(theirs, cst.CSTNode) and isinstance(_kind(theirs), type):
        assert isinstance(mine, nodes.Node)
        assert type(mine) is _kind(theirs)
        yield mine, theirs
        for field in fields(theirs):
            yield from pairs(vars(mine).get(field.name, ()), getattr(theirs, field.name))
    else:
        assert mine == theirs or mine in (None, ())


def _kind(node: cst.CSTNode) -> object:
    return getattr(nodes, type(node).__name__)


@pytest.mark.parametrize("text", [EVERYTHING, *(p.read_text("utf-8") for p in SOURCES[1:6])])
def test_the_tree_is_that_of_libcst(text: str) -> None:
    with parsing() as parse:
        light = parse(text)
    compared = 0
    for a, b in pairs(light, cst.parse_module(text)):
        compared += 1
        if isinstance(b, cst.BaseExpression):
            read = [type(c).__name__ for c in b.children if isinstance(_kind(c), type)]
            assert [type(c).__name__ for c in a.children] == read
        if isinstance(b, (cst.SimpleString, cst.ConcatenatedString)):
            assert a.evaluated_value == b.evaluated_value
    assert compared > 150


def test_every_expression_of_libcst_is_one() -> None:
    def below(kind: type[object]) -> Iterator[type[object]]:
        for child in kind.__subclasses__():
            yield child
            yield from below(child)

    named = [k.__name__ for k in below(cst.CSTNode) if hasattr(cst, k.__name__)]
    concrete = [name for name in named if not name.startswith("Base")]
    assert len(concrete) > 150
    for name in concrete:
        mine = getattr(nodes, name)
        if isinstance(mine, type):
            expected = issubclass(getattr(cst, name), cst.BaseExpression)
            assert issubclass(mine, nodes.BaseExpression) == expected, name


@pytest.mark.parametrize(
    "literal",
    ["''", '"a"', "'it\"s'", r"'\n'", r"r'\n'", "b'a'", "'''a\nb'''", '""""a"""', "u'a'",
     "'a' 'b' 'c'", "b'a' b'b'", "'a' f'b'", "f'a' 'b'"],
)  # fmt: skip
def test_a_literal_is_worth_what_libcst_says(literal: str) -> None:
    expected = cst.parse_expression(literal)
    assert isinstance(expected, (cst.SimpleString, cst.ConcatenatedString))
    with parsing() as parse:
        line = parse(f"{literal}\n").body[0]
    assert line.body[0].value.evaluated_value == expected.evaluated_value  # type: ignore[index, union-attr]


def test_a_lightened_tree_knows_how_it_was_written() -> None:
    module = parsed_whole("x = {1 : 2}  # two\n")
    value = module.body[0].body[0].value  # type: ignore[index, union-attr]
    assert isinstance(own(value), cst.Dict)
    assert written(value) == "{1 : 2}"
    with parsing() as parse:
        bare = parse("x = {1 : 2}\n").body[0].body[0].value  # type: ignore[index, union-attr]
    assert own(bare) is None
    assert written(bare) is None
    assert lightened(cst.parse_module("")).body == ()


def test_the_stand_in_is_gone_afterwards() -> None:
    with parsing() as parse, pytest.raises(nodes.ParserSyntaxError) as caught:
        parse("a = 1\nb = (\n")
    assert sys.modules["libcst"] is cst
    with pytest.raises(cst.ParserSyntaxError) as expected:
        cst.parse_module("a = 1\nb = (\n")
    assert caught.value.message == expected.value.message
    assert caught.value.raw_line == expected.value.raw_line


def test_libcst_itself_is_not_loaded_and_can_be_later() -> None:
    program = (
        "import sys; from lint_rules.nodes import parsing\n"
        "with parsing() as parse: assert parse('x').body\n"
        "print(*sorted(name for name in sys.modules if name.startswith('libcst')))\n"
        "import libcst; print(libcst.parse_module('x = 1').code)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("libcst.native\nx = 1\n", "")
