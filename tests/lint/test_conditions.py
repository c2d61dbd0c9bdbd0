"""Formulas: normal form, implication, contradiction, substitution, and how they are shown."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import libcst as cst
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lint_rules.conditions import (
    FALSE,
    TRUE,
    atoms,
    conjunction,
    disjunction,
    formula,
    implies,
    negation,
    relevant,
    satisfiable,
    show,
    substitute,
    undecided,
)
from lint_rules.extract import extract
from lint_rules.facts import And, Attr, Compare, Const, Expr, Name, Not, Or, Return

A, B, C, D = (Name(n) for n in "abcd")


def parsed(text: str) -> Expr:
    """``text`` as the extractor reads it."""
    facts = extract("x.py", f"def f():\n    return {text}\n")
    (function,) = facts.functions
    (value,) = [e.value for e in function.events if isinstance(e, Return)]
    return value


def truth(text: str) -> Expr:
    return formula(parsed(text))


@pytest.mark.parametrize(
    ("premises", "conclusion"),
    [
        (["a and b"], "a"),
        (["a"], "a or b"),
        (["not (a or b)"], "not b"),
        (["a or b", "not a"], "b"),
        (["not a or b", "not b or c", "a"], "c"),
        (["a if b else c", "b"], "a"),
        (["a if b else c", "not b"], "c"),
        (["bool(a)"], "a"),
        (["a is True"], "a"),
        (["a == False"], "not a"),
        (["x"], "x is not None"),
        (["x is None"], "not x"),
        (["x == 2"], "x"),
        (["x == 0"], "not x"),
        (["x == 'decode'"], "x != 'extend'"),
        (["x == 'decode'"], "x is not None"),
        (["x > 1"], "x > 0"),
        (["x > 0"], "x"),
        (["x < 0"], "x"),
        (["x < 1"], "x < 4"),
        (["x > 3"], "not x < 2"),
        (["x == 3"], "x > 1"),
        (["x == 3"], "not x < 2"),
        (["x >= 2"], "not x < 2"),
        (["x in ('a', 'b')", "x != 'a'"], "x == 'b'"),
        (["x is Mode.EXTEND"], "x in (Mode.EXTEND, Mode.DECODE)"),
        (["x == Mode.EXTEND"], "x is not Mode.DECODE"),
        (["x", "y > 0 or not x"], "y"),
        (["x"], "not x or x > 0"),
        (["x not in ('a', 'b')"], "x != 'a'"),
        (["1 < x < 5"], "x > 0"),
        (["self.pool"], "hasattr(self, 'pool')"),
        (["getattr(self, 'pool', None) is not None"], "hasattr(self, 'pool')"),
        (["getattr(self, 'pool', None)"], "self.pool"),
        (["get_args().enable"], "get_args().enable"),
    ],
)  # fmt: skip
def test_implied(premises: list[str], conclusion: str) -> None:
    assert implies([truth(p) for p in premises], truth(conclusion))


@pytest.mark.parametrize(
    ("premises", "conclusion"),
    [
        ([], "a"),
        (["a or b"], "a"),
        (["a"], "a and b"),
        (["a if b else c"], "a"),
        (["x is not None"], "x"),
        (["x != 'a'"], "x == 'b'"),
        (["x > 0"], "x > 1"),
        (["x < 4"], "x < 1"),
        (["x > 1"], "x < 5"),
        (["hasattr(self, 'pool')"], "self.pool"),
        (["hasattr(self, 'pool')"], "hasattr(self, 'window')"),
        (["f(a)"], "f(b)"),
        (["a.flag"], "b.flag"),
        (["x == a.first"], "x != a.second"),
        (["x == Mode.EXTEND"], "x is not Other.DECODE"),
    ],
)
def test_not_implied(premises: list[str], conclusion: str) -> None:
    assert not implies([truth(p) for p in premises], truth(conclusion))


@pytest.mark.parametrize(
    "formulas",
    [
        ["a", "not a"],
        ["a and b", "not b"],
        ["a or b", "not a", "not b"],
        ["x", "x is None"],
        ["x == 'a'", "x == 'b'"],
        ["x == 1", "x > 2"],
        ["x > 3", "x < 2"],
        ["x > 3", "x < 3"],
        ["x is None", "x == 3"],
        ["x in ()"],
        ["getattr(self, 'pool', None)", "not hasattr(self, 'pool')"],
        ["disabled or capturing", "not disabled", "not capturing"],
    ],
)
def test_contradictory(formulas: list[str]) -> None:
    assert not satisfiable([truth(f) for f in formulas])


@pytest.mark.parametrize(
    "formulas",
    [
        [],
        ["a", "b"],
        ["a or not a"],
        ["x", "x is not None"],
        ["not x", "x is not None"],
        ["x > 1", "x < 5"],
        ["x != 'a'", "x != 'b'"],
        ["hasattr(self, 'pool')", "not self.pool"],
    ],
)
def test_consistent(formulas: list[str]) -> None:
    assert satisfiable([truth(f) for f in formulas])


def test_too_many_atoms_are_left_open() -> None:
    many = [Name(f"a{i}") for i in range(23)]
    assert undecided(many)
    assert not undecided(many[:22])
    assert satisfiable([*many, disjunction(map(negation, many))])
    assert not implies(many, conjunction(many))
    assert not satisfiable([*many[:22], disjunction(map(negation, many[:22]))])
    assert implies(many[:22], conjunction(many[:22]))


def test_constants_and_simplification() -> None:
    assert formula(Const("None")) == FALSE
    assert formula(Const("0")) == FALSE
    assert formula(Const("'x'")) == TRUE
    assert conjunction([]) == TRUE
    assert disjunction([]) == FALSE
    assert conjunction([A, TRUE]) == A
    assert conjunction([A, And((B, C)), A]) == And((A, B, C))
    assert conjunction([A, FALSE]) == FALSE
    assert conjunction([A, Not(A)]) == FALSE
    assert disjunction([A, FALSE]) == A
    assert disjunction([A, Or((B, C)), B]) == Or((A, B, C))
    assert disjunction([A, Not(A)]) == TRUE
    assert negation(Not(A)) == A
    assert negation(TRUE) == FALSE


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 == 1", TRUE),
        ("1 > 2", FALSE),
        ("1_000 > 999", TRUE),
        ("'a' == 'b'", FALSE),
        ("[]", FALSE),
        ("(a,)", TRUE),
        ("x != None", Not(Compare(Name("x"), "is", Const("None")))),
        ("None is x", Compare(Name("x"), "is", Const("None"))),
        ("x >= 2", Not(Compare(Name("x"), "<", Const("2")))),
        ("(a and b) is None", FALSE),
        ("not not a", A),
    ],
)
def test_normal_form(text: str, expected: Expr) -> None:
    assert truth(text) == expected


def test_atoms_stand_in_order_of_appearance() -> None:
    assert list(atoms(truth("a and (not b or x > 1) and a"))) == [
        A,
        B,
        Compare(Name("x"), ">", Const("1")),
    ]
    assert list(atoms(TRUE)) == []


def test_substitution_replaces_outermost_first() -> None:
    flag = Attr(Name("self"), "flag")

    def replace(item: Expr) -> Expr | None:
        if item == flag:
            return And((Name("p"), Not(Name("self"))))
        return Name("me") if item == Name("self") else None

    assert substitute(flag, replace) == And((Name("p"), Not(Name("self"))))
    assert substitute(parsed("self.flag or self.other(self, k=self)[self]"), replace) == parsed(
        "(p and not self) or me.other(me, k=me)[me]"
    )
    assert substitute(parsed("self > 1 and (self, 2)"), replace) == parsed("me > 1 and (me, 2)")
    assert substitute(parsed("a if self else b"), replace) == parsed("a if me else b")


def test_substitution_of_nothing_changes_nothing() -> None:
    value = parsed("not (a.b(c, d=e)[f] and g < 2) or (h if i else j)")
    assert substitute(value, lambda item: None) == value


@pytest.mark.parametrize(
    "text",
    [
        "a and b or c",
        "a and (b or c)",
        "not (a or b)",
        "not a",
        "not f(a)",
        "a.b.c(d, e=f)",
        "x is not None",
        "x not in names",
        "x == 'decode'",
        "rows[0].mode > 2",
        "a if b else c",
        "(a if b else c) and d",
        "not a and not b",
        "f(a and b, not c)",
    ],
)
def test_shown_as_python(text: str) -> None:
    assert show(parsed(text)) == text
    cst.parse_expression(show(parsed(text)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x >= 2", "x >= 2"),
        ("x <= 2", "x <= 2"),
        ("x != 'a'", "x != 'a'"),
        ("not (x is None)", "x is not None"),
        ("not x > 2", "x <= 2"),
        ("not x < 2", "x >= 2"),
        ("x in ('a', 'b')", "x == 'a' or x == 'b'"),
        ("bool(a) and True", "a"),
    ],
)
def test_shown_after_normalising(text: str, expected: str) -> None:
    assert show(truth(text)) == expected


def test_shown_without_what_the_walk_added() -> None:
    assert show(Attr(Name("LatentBackend:runner"), "flag")) == "runner.flag"


_ATOMS = (A, B, C, D)
_FORMULAS = st.recursive(
    st.sampled_from([*_ATOMS, TRUE, FALSE]),
    lambda inner: st.one_of(
        inner.map(negation),
        inner.map(Not),
        st.lists(inner, min_size=1, max_size=3).map(conjunction),
        st.lists(inner, min_size=1, max_size=3).map(disjunction),
        st.lists(inner, min_size=1, max_size=3).map(lambda i: And(tuple(i))),
        st.lists(inner, min_size=1, max_size=3).map(lambda i: Or(tuple(i))),
    ),
    max_leaves=8,
)


def value_of(expr: Expr, world: Mapping[Expr, bool]) -> bool:
    if isinstance(expr, Not):
        return not value_of(expr.value, world)
    if isinstance(expr, And):
        return all(value_of(i, world) for i in expr.items)
    if isinstance(expr, Or):
        return any(value_of(i, world) for i in expr.items)
    return expr == TRUE or (expr != FALSE and world[expr])


def worlds() -> list[dict[Expr, bool]]:
    return [
        dict(zip(_ATOMS, values, strict=True))
        for values in itertools.product((True, False), repeat=len(_ATOMS))
    ]


@settings(max_examples=400, deadline=None)
@given(st.lists(_FORMULAS, max_size=3), _FORMULAS)
def test_agrees_with_a_truth_table(premises: list[Expr], conclusion: Expr) -> None:
    premises, conclusion = [formula(p) for p in premises], formula(conclusion)
    holding = [w for w in worlds() if all(value_of(p, w) for p in premises)]
    assert satisfiable(premises) == bool(holding)
    assert implies(premises, conclusion) == all(value_of(conclusion, w) for w in holding)


@settings(max_examples=400, deadline=None)
@given(_FORMULAS)
def test_normal_form_means_the_same(expr: Expr) -> None:
    normal = formula(expr)
    assert [value_of(normal, w) for w in worlds()] == [value_of(expr, w) for w in worlds()]


_NUMBERS = st.builds(
    lambda op, number: formula(Compare(Name("x"), op, Const(str(number)))),
    st.sampled_from(["<", "<=", ">", ">=", "==", "!="]),
    st.integers(min_value=0, max_value=3),
)


@settings(max_examples=400, deadline=None)
@given(st.lists(_NUMBERS, min_size=1, max_size=3), _NUMBERS)
def test_number_comparisons_never_prove_what_a_number_refutes(
    premises: list[Expr], conclusion: Expr
) -> None:
    def holds(expr: Expr, x: float) -> bool:
        if isinstance(expr, Not):
            return not holds(expr.value, x)
        assert isinstance(expr, Compare)
        assert isinstance(expr.right, Const)
        right = float(expr.right.text)
        return {"<": x < right, ">": x > right, "==": x == right}[expr.op]

    candidates = [n / 2 for n in range(-2, 9)]
    holding = [x for x in candidates if all(holds(p, x) for p in premises)]
    if holding:
        assert satisfiable(premises)
    if any(not holds(conclusion, x) for x in holding):
        assert not implies(premises, conclusion)


def test_what_is_relevant_is_linked_by_atoms_or_by_what_is_compared() -> None:
    a, b, c, d, n = (Name(x) for x in "abcdn")
    premises = [disjunction((a, b)), disjunction((b, c)), d, Compare(n, ">", Const("1"))]
    assert relevant(premises, [c]) == [premises[1], premises[0]]
    assert relevant(premises, [negation(Compare(n, "==", Const("0")))]) == [premises[3]]
    assert relevant(premises, [TRUE]) == []
