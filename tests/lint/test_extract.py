"""What one file says: positions, path conditions, and the same facts from a reduced file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import libcst as cst
import pytest
from libcst.metadata import MetadataWrapper, PositionProvider

import lint_rules
import mla_guard
from lint_rules.conditions import negation, show
from lint_rules.extract import extract
from lint_rules.facts import (
    Bind,
    CallEvent,
    FileFacts,
    Function,
    Name,
    Read,
    Return,
    Write,
    last_name,
)
from lint_rules.outline import logical_lines, reduced

TRICKY = {
    "triple quotes, an escaped quote": 'a = """one\ntwo \\"""\nthree"""\nb = 1\n',
    "a hash in a string, a semicolon": "a = '''# no comment\n'''; b = 2\nc = 3\n",
    "quotes, brackets": "a = 'it\\'s' + \"#\"  # 'x\nb = (  # (\n    1,\n)\nc = 2\n",
    "nested brackets": "a = [\n    {1: (2,\n         3)},\n    # ]\n    4,\n]\nb = 5\n",
    "backslashes": "a = 1 + \\\n    2\nb = '\\\n'\nc = 3\n",
    "decorators": (
        "@one\n"
        "@two(\n"
        "    3,\n"
        ")\n"
        "\n"
        "# between\n"
        "@four\n"
        "class C(\n"
        "    D,\n"
        "):\n"
        "    @five\n"
        "    def f(self): pass\n"
    ),
    "one-line suites": "if a: b = 1\nelif c: d = 2\nelse: e = 3\nf = 4\n",
    "elif and else between comments": (
        "if a:\n"
        "    b = 1\n"
        "# here\n"
        "elif (c\n"
        "      or d):\n"
        "\n"
        "    e = 2\n"
        "else:\n"
        "    # there\n"
        "    f = 3\n"
    ),
    "try": (
        "try:\n"
        "    a = 1\n"
        "except (B,\n"
        "        C) as e: pass\n"
        "except D:\n"
        "    d = 2\n"
        "else:\n"
        "    f = 3\n"
        "finally:\n"
        "    g = 4\n"
    ),
    "match": (
        "match a:\n"
        "    case 1 | 2: b = 1\n"
        "    case [\n"
        "        x,\n"
        "    ] if x:\n"
        "        c = 2\n"
        "    case _:\n"
        "        pass\n"
    ),
    "for and else": "for a in (1,\n          2):\n    b = a\nelse:\n    c = 3\n",
    "while and else": "while a:\n    b = 1; c = 2\nelse:\n    d = 3\n",
    "with": (
        "with (\n    a as b,\n    c,\n):\n    d = 1\nasync def f():\n    async with g: pass\n"
    ),
    "a long header": (
        "def f(\n    a: int = 1,\n    *,\n    b=(2,\n       3),\n) -> None: return g(a)\nh = 4\n"
    ),
    "docstrings, blank lines": (
        'class C:\n    """Doc.\n\n    More.\n    """\n\n    a = 1\n\n\n\n    b: int\n'
    ),
    "prefixes": "a = f'{b!r:>{c}}' f\"\"\"\n{d['e']}\n\"\"\"\ng = rb'\\\\'\nh = 1\n",
    "tabs and a form feed": "if a:\n\tb = 1\n\n\tif c:\n\t\td = 2\n\x0ce = 3\n",
    "no newline at the end": "a = 1\nb = 2",
    "comments around, trailing semicolons": "\n\n# only\n\na = 1;\n\nb = 2 ; c = 3 ;\n# end\n",
}


def statement_lines(source: str) -> list[int]:
    """The first line of each statement, clause and decorator, as LibCST's provider has it."""
    wrapper = MetadataWrapper(cst.parse_module(source))
    positions = wrapper.resolve(PositionProvider)
    kinds = (
        cst.SimpleStatementLine, cst.If, cst.Else, cst.For, cst.While, cst.With, cst.Try,
        cst.ExceptHandler, cst.Finally, cst.Match, cst.MatchCase, cst.FunctionDef, cst.ClassDef,
        cst.Decorator,
    )  # fmt: skip
    found: list[int] = []
    for node, position in positions.items():
        if isinstance(node, (cst.FunctionDef, cst.ClassDef)):
            found.append(positions[node.name].start.line)
        elif isinstance(node, kinds):
            found.append(position.start.line)
    return sorted(found)


@pytest.mark.parametrize("source", TRICKY.values(), ids=TRICKY)
def test_logical_lines_are_where_the_position_provider_has_them(source: str) -> None:
    assert [entry.line for entry in logical_lines(source)] == statement_lines(source)


def sources() -> list[Path]:
    tops = [Path(package.__file__ or "").parent for package in (lint_rules, mla_guard)]
    return sorted(path for top in tops for path in top.rglob("*.py"))


@pytest.mark.parametrize("path", sources(), ids=lambda p: f"{p.parent.name}/{p.name}")
def test_own_sources_have_the_lines_of_the_position_provider(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    assert [entry.line for entry in logical_lines(source)] == statement_lines(source)


def body(text: str) -> Function:
    """The function ``f`` with ``text`` as its body."""
    lines = "".join(f"    {line}\n" for line in text.splitlines())
    (function,) = extract("x.py", f"def f(self, batch):\n{lines}").functions
    return function


def path_to(function: Function, cond: int) -> list[str]:
    """The conditions of an event, outermost first; a fatal one is marked."""
    found: list[str] = []
    while cond != -1:
        cond, expr, fatal = function.conditions[cond]
        found.append(show(negation(negation(expr))) + " !" * fatal)
    return found[::-1]


def guards(text: str) -> list[list[str]]:
    """The path condition of each read of ``self.x``, in order."""
    function = body(text)
    return [
        path_to(function, e.cond)
        for e in function.events
        if isinstance(e, Read) and e.name == "x" and e.value == Name("self")
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("self.x", [[]]),
        ("if a:\n    self.x\nelse:\n    self.x", [["a"], ["not a"]]),
        ("if a: self.x\nelif b: self.x\nelse: self.x", [["a"], ["not a", "b"], ["not a", "not b"]]),
        ("if a:\n    return\nself.x", [["not a"]]),
        ("if not a:\n    raise E\nself.x", [["a !"]]),
        ("if a:\n    pass\nelse:\n    return\nself.x", [["a"]]),
        ("if a:\n    return\nelif b:\n    return\nself.x", [["not a", "not b"]]),
        ("if a:\n    return\nelse:\n    raise E\nself.x", [[]]),
        ("if a:\n    if b:\n        return\nself.x", [["a and not b or not a"]]),
        ("if a:\n    b = 1\nself.x", [[]]),
        ("assert a\nself.x", [["a !"]]),
        ("assert a, self.x\nself.x", [["not a"], ["a !"]]),
        ("for i in n:\n    if a:\n        continue\n    self.x\nself.x", [["not a"], []]),
        ("for i in n:\n    if a:\n        break\nelse:\n    self.x\nself.x", [[], []]),
        ("while a:\n    self.x\nelse:\n    self.x\nself.x", [["a"], [], []]),
        ("while True:\n    if a:\n        break\nself.x", [[]]),
        ("a and self.x", [["a"]]),
        ("a and b and self.x", [["a and b"]]),
        ("a or self.x", [["not a"]]),
        ("(a or b) and self.x", [["a or b"]]),
        ("if a and self.x:\n    self.x", [["a"], ["a and self.x"]]),
        ("if (b := a) and self.x: pass", [["a"]]),
        ("if n := len(a):\n    self.x", [["len(a)"]]),
        ("y = self.x if a else self.x", [["a"], ["not a"]]),
        ("y = [self.x for i in n if a if b]", [["a", "b"]]),
        ("y = {i: self.x for i in n if a}\nself.x", [["a"], []]),
        ("y = any(self.x for i in self.x if a)", [[], ["a"]]),
        ("y = lambda: self.x\nself.x", [[], []]),
        ("if a:\n    def g():\n        return self.x\nself.x", [["a"], []]),
        ("def g():\n    if a:\n        return 1\n    self.x\nself.x", [["not a"], []]),
        ("with a as b:\n    self.x", [[]]),
        ("with a:\n    if b:\n        return\nself.x", [["not b"]]),
        ("match a:\n    case 1:\n        self.x\nself.x", [["a == 1"], []]),
        ("match a:\n    case 1 | 2: pass\n    case None: self.x\n    case _: self.x",
         [["not (a == 1 or a == 2)", "a is None"],
          ["not (a == 1 or a == 2)", "a is not None"]]),
        ("match a:\n    case 1: return\n    case [b]: raise E\nself.x", [["a != 1", "not ... !"]]),
        ("match a:\n    case 1: self.x\n    case _: return\nself.x", [["a == 1"], ["a == 1"]]),
        ("match a:\n    case n if n > 1:\n        self.x", [["True and n > 1"]]),
        ("try:\n    if a:\n        return\nexcept E:\n    pass\nself.x", [[]]),
        ("try:\n    b = 1\nexcept E:\n    return\nself.x", [[]]),
        ("if hasattr(self, 'y'):\n    self.x", [["hasattr(self, 'y')"]]),
        ("if getattr(self, 'y', None) is None:\n    return\nself.x",
         [["getattr(self, 'y', None) is not None"]]),
        ("print(f'{self.x if a else 1}')", [["a"]]),
        ("self.y[self.x : a and self.x]", [[], ["a"]]),
        ("if a < b < c:\n    self.x", [["a < b and b < c"]]),
    ],
)  # fmt: skip
def test_path_conditions(text: str, expected: list[list[str]]) -> None:
    assert guards(text) == expected


def reads(text: str) -> list[tuple[str, bool, bool]]:
    return [
        (e.name, e.probe, e.caught)
        for e in body(text).events
        if isinstance(e, Read) and e.value == Name("self")
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("self.x", [("x", False, False)]),
        ("self.x.y.z", [("x", False, False)]),
        ("self.x()", []),
        ("self.x = self.y", [("y", False, False)]),
        ("self.x += 1", [("x", False, False)]),
        ("hasattr(self, 'x')", [("x", True, False)]),
        ("getattr(self, 'x', None)", [("x", True, False)]),
        ("getattr(self, 'x')", [("x", False, False)]),
        ("getattr(self, name, None)", []),
        ("try:\n    self.x\nexcept AttributeError:\n    self.y",
         [("x", False, True), ("y", False, False)]),
        ("try:\n    self.x\nexcept (KeyError, AttributeError):\n    pass", [("x", False, True)]),
        ("try:\n    self.x\nexcept KeyError:\n    pass", [("x", False, False)]),
        ("try:\n    self.x\nexcept TypeError:\n    pass", [("x", False, False)]),
        ("try:\n    self.x\nexcept:\n    pass\nself.y", [("x", False, True), ("y", False, False)]),
        ("try:\n    pass\nexcept AttributeError:\n    pass\nelse:\n    self.x",
         [("x", False, False)]),
    ],
)  # fmt: skip
def test_reads(text: str, expected: list[tuple[str, bool, bool]]) -> None:
    assert reads(text) == expected


@pytest.mark.parametrize(
    ("text", "caught"),
    [
        ("g()", False),
        ("try:\n    g()\nexcept TypeError:\n    pass", True),
        ("try:\n    g()\nexcept Exception:\n    pass", True),
        ("try:\n    g()\nexcept ValueError:\n    pass", False),
        ("try:\n    pass\nfinally:\n    g()", False),
    ],
)
def test_calls_that_expect_to_fail(text: str, caught: bool) -> None:
    assert [e.caught for e in body(text).events if isinstance(e, CallEvent)] == [caught]


def writes(text: str) -> list[tuple[str, str]]:
    return [
        (e.name, show(e.value) if e.value is not None else "-")
        for e in body(text).events
        if isinstance(e, Write)
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("self.x = a", [("x", "a")]),
        ("self.x = self.y = a", [("x", "a"), ("y", "a")]),
        ("self.x: int = a", [("x", "a")]),
        ("self.x: int", []),
        ("self.x, self.y = a, b", [("x", "a"), ("y", "b")]),
        ("self.x, *self.y = g()", [("x", "-"), ("y", "-")]),
        ("self.x += 1", [("x", "-")]),
        ("setattr(self, 'x', a)", [("x", "a")]),
        ("setattr(self, name, a)", []),
        ("self.x[0] = a", []),
        ("with g() as self.x: pass", [("x", "g()")]),
        ("for self.x in n: pass", [("x", "n[...]")]),
    ],
)
def test_writes(text: str, expected: list[tuple[str, str]]) -> None:
    assert writes(text) == expected


def test_binds_name_what_a_loop_hands_out() -> None:
    function = body(
        "for i, b in enumerate(self.backends):\n    b.plan()\n"
        "for p, q in zip(self.ps, self.qs): pass\n"
        "for r in reversed(self.rs): pass\n"
        "for s in self.ss.values(): pass\n"
        "for i, t in enumerate(tuple(self.ts.values())): pass\n"
        "for i, u in self.us.items(): pass\n"
        "for v in self.vs.values(1): pass\n"
        "[w for i, w in self.ws.items() if w]\n"
    )
    assert {
        e.name: show(e.value) for e in function.events if isinstance(e, Bind) and e.name != "i"
    } == {
        "b": "self.backends[...]",
        "p": "self.ps[...]",
        "q": "self.qs[...]",
        "r": "self.rs[...]",
        "s": "self.ss[...]",
        "t": "self.ts[...]",
        "u": "self.us[...]",
        "v": "self.vs.values(1)[...]",
        "w": "self.ws[...]",
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a, b = self.f()", {"f": 2}),
        ("[a, self.b, c] = self.f(g())", {"g": 0, "f": 3}),
        ("a, (b, c) = f()", {"f": 2}),
        ("a = f()", {"f": 0}),
        ("a, *b = f()", {"f": 0}),
        ("a, b = f(), g()", {"f": 0, "g": 0}),
        ("a, b = f().c", {"f": 0}),
        ("a, b = f() if a else g()", {"f": 0, "g": 0}),
        ("with f() as (a, b): pass", {"f": 2}),
        ("for a, b in f(): pass", {"f": 0}),
    ],
)
def test_calls_whose_result_is_taken_apart(text: str, expected: dict[str, int]) -> None:
    assert {last_name(e.call.func): e.unpacked for e in body(text).calls} == expected


def test_parameters_and_kinds() -> None:
    source = "def f(a, /, b: list[C], *args, c=1, d: 'E | None', **kw) -> 'F[G]': ...\n"
    (function,) = extract("x.py", source).functions
    assert [(p.name, p.kind, p.required, p.annotation) for p in function.params] == [
        ("a", 0, True, ()),
        ("b", 1, True, ("list", "C")),
        ("args", 2, False, ()),
        ("c", 3, False, ()),
        ("d", 3, True, ("E", "None")),
        ("kw", 4, False, ()),
    ]
    assert function.returns == ("F", "G")
    assert function.body == "trivial"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("pass", "trivial"),
        ('"""Doc."""', "trivial"),
        ("...", "trivial"),
        ("return None", "trivial"),
        ("return False", "trivial"),
        ("return 4", "trivial"),
        ("raise NotImplementedError", "raise"),
        ('"""Doc."""\nraise NotImplementedError("no")', "raise"),
        ("return self.x", "code"),
        ("if a:\n    raise E", "code"),
    ],
)
def test_kinds_of_bodies(text: str, kind: str) -> None:
    assert body(text).body == kind


def test_methods_of_nested_functions_belong_to_the_outer_one() -> None:
    function = body("def g():\n    return self.x\nreturn g\n")
    assert [show(e.value) for e in function.events if isinstance(e, Return)] == ["g"]
    assert [e.name for e in function.events if isinstance(e, Read)] == ["x"]


ENGINE = '''\
"""Mentions Backend in a docstring only."""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from base import Backend
else:
    Backend = None

LIMIT = 4


class Helper:
    """No word of it."""

    size = 1

    def grow(self):
        self.size += 1


class Runner:
    attn: "Backend"

    @property
    def ready(self):
        return True

    def build(
        self,
        kind: str,
    ) -> "Backend":
        """Multi-line
        text; with a semicolon."""
        if kind == "a":
            self.attn = make_backend(kind); return self.attn
        elif kind: return None
        raise ValueError(kind)

    def other(self):
        return os.getcwd()


class Empty:
    def quiet(self): pass


def unrelated():
    try:
        return 1
    finally:
        print("x")


@decorated(
    1,
)
def make_backend(kind):
    match kind:
        case "a":
            return Backend(kind)
        case _:
            return None
'''


def mentions(text: str) -> bool:
    return re.search(r"\b(?:Backend|make_backend)\b", text) is not None


def named(facts: FileFacts) -> Iterator[tuple[str, Function]]:
    for klass in facts.classes:
        for method in klass.methods:
            yield f"{klass.qualname}.{method.name}", method
    for function in facts.functions:
        yield function.name, function


def test_facts_are_the_same_from_a_reduced_file() -> None:
    whole = extract("x.py", ENGINE)
    cut = extract("x.py", ENGINE, mentions, lambda header: False)
    assert cut.imports == whole.imports
    assert [c.qualname for c in cut.classes] == ["Runner"]
    assert cut.classes[0].line == whole.classes[1].line == 23
    assert cut.classes[0].attrs == whole.classes[1].attrs
    everything = dict(named(whole))
    assert list(dict(named(cut))) == ["Runner.build", "make_backend"]
    for name, function in named(cut):
        assert normalised(function) == normalised(everything[name])


def normalised(function: Function) -> tuple[object, ...]:
    """A function without the numbers that keep unknown expressions of one file apart."""
    text = re.sub(r"Opaque\(key=\d+", "Opaque(", repr((function.events, function.conditions)))
    return function.name, function.line, function.params, function.decorators, text


def test_imports_for_type_checkers_are_marked() -> None:
    imports = extract("x.py", ENGINE).imports
    assert [(i.local, i.module, i.name, i.level, i.typing) for i in imports] == [
        ("os", "os", "", 0, False),
        ("TYPE_CHECKING", "typing", "TYPE_CHECKING", 0, False),
        ("Backend", "base", "Backend", 0, True),
    ]


def test_everything_is_kept_where_the_header_asks_for_it() -> None:
    assert extract("x.py", ENGINE, lambda t: True, lambda t: True) == extract("x.py", ENGINE)


@pytest.mark.parametrize("path", sources(), ids=lambda p: f"{p.parent.name}/{p.name}")
def test_own_sources_reduce_to_the_same_functions(path: Path) -> None:
    source = path.read_text(encoding="utf-8")

    def wanted(text: str) -> bool:
        return "Klass" in text or "Signature" in text

    everything: dict[str, set[tuple[object, ...]]] = {}
    for name, function in named(extract("x.py", source)):
        everything.setdefault(name, set()).add(normalised(function))
    for name, function in named(extract("x.py", source, wanted, lambda header: False)):
        assert normalised(function) in everything[name]


def test_reduced_text_parses_and_keeps_line_numbers() -> None:
    text, lines = reduced(ENGINE, mentions, lambda header: False)
    cst.parse_module(text)
    assert "class Helper" not in text
    assert "def unrelated" not in text
    assert "class Empty" not in text
    numbered = ENGINE.splitlines()
    kept = logical_lines(text)
    assert len(kept) == len(lines)
    for entry, line in zip(kept, lines, strict=True):
        first = text[entry.start : entry.end].lstrip("\n").splitlines()[0]
        assert numbered[line - 1] == first


@pytest.mark.parametrize(
    ("source", "line", "error"),
    [
        ("a = 1\nclass Backend(:\n    pass\n", 2, "does not parse: invalid syntax"),
        ("a = 1\nb = 2\nc = = 3\nd = 4\n", 3, "does not parse: invalid syntax"),
        ("def f():\n    a = 1\n      b = 2\n", 3, "does not parse: unexpected indent"),
    ],
)
def test_a_file_that_does_not_parse_says_where(source: str, line: int, error: str) -> None:
    assert extract("x.py", source) == FileFacts("x.py", error=error, error_line=line)


def test_an_empty_file_says_nothing() -> None:
    assert extract("x.py", "\n# a comment\n") == FileFacts("x.py")


@pytest.mark.parametrize(
    "size", ["WIDE if wide else 1", "not wide", "wide and deep", "wide in deep", "lambda: wide"]
)
def test_an_annotation_may_hold_any_expression(size: str) -> None:
    source = f"class A:\n    x: Array[Int, {size}]\n\n    def f(self, y: Array[{size}, Int]): ...\n"
    [klass] = extract("x.py", source).classes
    assert {"Array", "Int", "wide"} <= set(klass.attrs[0].annotation)
    assert set(klass.attrs[0].annotation) == set(klass.methods[0].params[1].annotation)
