"""Conditions as formulas: normal form, substitution and implication.

A formula is an expression of :mod:`lint_rules.facts` in which ``Not``, ``And`` and ``Or`` are the
connectives and everything else is an atom. Implication is decided by splitting on atoms, with what
Python knows about them added (a true value is not None, ``x == "a"`` excludes ``x == "b"``,
``x > 1`` implies ``x > 0``, ...).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache

from lint_rules.facts import (
    And,
    Attr,
    Call,
    Compare,
    Const,
    Expr,
    IfElse,
    Item,
    Name,
    Not,
    Opaque,
    Or,
    Seq,
)

__all__ = [
    "FALSE",
    "TRUE",
    "atoms",
    "conjunction",
    "disjunction",
    "formula",
    "implies",
    "negation",
    "relevant",
    "satisfiable",
    "show",
    "substitute",
    "undecided",
]

TRUE: Expr = Const("True")
FALSE: Expr = Const("False")
_MOST_ATOMS = 22
_MIRRORED = {"==": "==", "is": "is", "<": ">", ">": "<"}
_NEGATED = {"!=": "==", "is not": "is", "not in": "in", ">=": "<", "<=": ">"}


def conjunction(items: Iterable[Expr]) -> Expr:
    """All of ``items``, flattened and simplified."""
    found: dict[Expr, None] = {}
    for item in items:
        if item == FALSE:
            return FALSE
        if isinstance(item, And):
            found.update(dict.fromkeys(item.items))
        elif item != TRUE:
            found[item] = None
    if _contradictory(found):
        return FALSE
    return _one_or(And, tuple(found), TRUE)


def disjunction(items: Iterable[Expr]) -> Expr:
    """One of ``items``, flattened and simplified."""
    found: dict[Expr, None] = {}
    for item in items:
        if item == TRUE:
            return TRUE
        if isinstance(item, Or):
            found.update(dict.fromkeys(item.items))
        elif item != FALSE:
            found[item] = None
    if _contradictory(found):
        return TRUE
    return _one_or(Or, tuple(found), FALSE)


def _contradictory(items: dict[Expr, None]) -> bool:
    """Whether an item stands beside its own negation."""
    return len(items) > 1 and (
        any(type(item) is Not and item.value in items for item in items)
        or (TRUE in items and FALSE in items)
    )


def _one_or(kind: type[And] | type[Or], items: tuple[Expr, ...], empty: Expr) -> Expr:
    if not items:
        return empty
    return items[0] if len(items) == 1 else kind(items)


def negation(item: Expr) -> Expr:
    """The opposite of a formula, without double negation."""
    if item == TRUE:
        return FALSE
    if item == FALSE:
        return TRUE
    return item.value if isinstance(item, Not) else Not(item)


def formula(expr: Expr) -> Expr:
    """The truth value of ``expr`` as a simplified formula over canonical atoms."""
    if isinstance(expr, (Name, Attr)):
        return expr
    if isinstance(expr, Const):
        return FALSE if expr.text in {"None", "False", "0", "0.0", "''", '""'} else TRUE
    if isinstance(expr, Not):
        return negation(formula(expr.value))
    if isinstance(expr, And):
        return conjunction(map(formula, expr.items))
    if isinstance(expr, Or):
        return disjunction(map(formula, expr.items))
    if isinstance(expr, IfElse):
        test = formula(expr.test)
        return disjunction(
            (
                conjunction((test, formula(expr.then))),
                conjunction((negation(test), formula(expr.other))),
            )
        )
    if isinstance(expr, Compare):
        return _comparison(expr)
    if isinstance(expr, Seq):
        return TRUE if expr.items else FALSE
    if isinstance(expr, Call):
        name = expr.func.id if isinstance(expr.func, Name) else ""
        if name == "bool" and len(expr.args) == 1:
            return formula(expr.args[0])
        if name == "getattr" and len(expr.args) == 3:
            return _getattr(expr, formula)
    return expr


def _getattr(expr: Call, judge: Callable[[Expr], Expr]) -> Expr:
    """``judge`` of ``getattr(x, "n", default)``: of the attribute or of the default."""
    value, name, default = expr.args
    if not isinstance(name, Const):
        return expr
    has: Expr = Call(Name("hasattr"), (value, name))
    read = Attr(value, name.text[1:-1])
    return disjunction(
        (conjunction((has, judge(read))), conjunction((negation(has), judge(default))))
    )


def _comparison(expr: Compare) -> Expr:
    left, op, right = expr.left, expr.op, expr.right
    if op in _NEGATED:
        return negation(formula(Compare(left, _NEGATED[op], right)))
    if isinstance(left, Const) and not isinstance(right, Const) and op in _MIRRORED:
        left, op, right = right, _MIRRORED[op], left
    if isinstance(left, Const) and isinstance(right, Const):
        known = _constants(left.text, op, right.text)
        if known is not None:
            return TRUE if known else FALSE
    if op == "in" and isinstance(right, Seq):
        return disjunction(formula(Compare(left, "==", item)) for item in right.items)
    if isinstance(right, Const) and op in {"==", "is"} and right.text in {"True", "False"}:
        # `flag is True` of a flag: taken as its truth value
        truth = formula(left)
        return truth if right.text == "True" else negation(truth)
    if right == Const("None") and op in {"==", "is"}:
        if isinstance(left, Call) and left.func == Name("getattr") and len(left.args) == 3:
            return _getattr(left, lambda e: formula(Compare(e, "is", Const("None"))))
        if isinstance(left, IfElse):
            test = formula(left.test)
            return disjunction(
                (
                    conjunction((test, formula(Compare(left.then, "is", right)))),
                    conjunction((negation(test), formula(Compare(left.other, "is", right)))),
                )
            )
        if isinstance(left, (Not, And, Or, Compare, Seq)):
            return FALSE
        return Compare(left, "is", right)
    return Compare(left, "==" if op == "is" else op, right)


def _constants(left: str, op: str, right: str) -> bool | None:
    if op in {"==", "is"}:
        return left == right
    a, b = _number(left), _number(right)
    if a is None or b is None:
        return None
    return a < b if op == "<" else a > b if op == ">" else None


def _number(text: str) -> float | None:
    try:
        return float(text.replace("_", ""))
    except ValueError:
        return None


def substitute(expr: Expr, replace: Callable[[Expr], Expr | None]) -> Expr:
    """``expr`` with every part that ``replace`` answers for exchanged, outermost first."""
    found = replace(expr)
    if found is not None:
        return found
    if isinstance(expr, (Name, Const, Opaque)):
        return expr
    if isinstance(expr, Attr):
        value = substitute(expr.value, replace)
        return expr if value is expr.value else Attr(value, expr.name)
    if isinstance(expr, Call):
        return Call(
            substitute(expr.func, replace),
            tuple(substitute(a, replace) for a in expr.args),
            tuple((k, substitute(v, replace)) for k, v in expr.keywords),
            expr.star,
            expr.double_star,
        )
    if isinstance(expr, Not):
        return Not(substitute(expr.value, replace))
    if isinstance(expr, And):
        return And(tuple(substitute(i, replace) for i in expr.items))
    if isinstance(expr, Or):
        return Or(tuple(substitute(i, replace) for i in expr.items))
    if isinstance(expr, Compare):
        return Compare(substitute(expr.left, replace), expr.op, substitute(expr.right, replace))
    if isinstance(expr, IfElse):
        return IfElse(
            substitute(expr.test, replace),
            substitute(expr.then, replace),
            substitute(expr.other, replace),
        )
    if isinstance(expr, Seq):
        return Seq(tuple(substitute(i, replace) for i in expr.items))
    index = substitute(expr.index, replace) if expr.index is not None else None
    return Item(substitute(expr.value, replace), index)


def atoms(expr: Expr) -> dict[Expr, None]:
    """The atoms of a formula, in order of appearance."""
    found: dict[Expr, None] = {}
    stack = [expr]
    while stack:
        item = stack.pop()
        kind = type(item)  # here, and below, most of the time goes
        if kind is Not:
            stack.append(item.value)  # type: ignore[union-attr]
        elif kind is And or kind is Or:
            stack.extend(reversed(item.items))  # type: ignore[union-attr]
        elif kind is not Const or (item != TRUE and item != FALSE):
            found[item] = None
    return found


def satisfiable(formulas: Sequence[Expr]) -> bool:
    """Whether all ``formulas`` can hold at once; True where there are too many atoms to tell."""
    whole = conjunction(formulas)
    if whole in (TRUE, FALSE):
        return whole == TRUE
    return _decided(whole)


@lru_cache(maxsize=4096)
def _decided(whole: Expr) -> bool:
    # classes of one hierarchy share methods, and with them many questions
    known = atoms(whole)
    return len(known) > _MOST_ATOMS or _search((whole, *_theory(list(known))))


def undecided(formulas: Sequence[Expr]) -> bool:
    """Whether ``formulas`` have too many atoms together to tell anything about them."""
    return len(atoms(And(tuple(formulas)))) > _MOST_ATOMS


def _search(formulas: Sequence[Expr]) -> bool:
    """Whether some assignment of the atoms makes all ``formulas`` true.

    The truth table of a formula is an integer with a bit for each assignment. Atoms that stand
    alone, or alone under a negation, have one value only and take no place in the table.
    """
    left: list[Expr] = []
    fixed: dict[Expr, bool] = {}
    for part in formulas:
        for item in part.items if type(part) is And else (part,):
            negated = type(item) is Not
            atom = item.value if type(item) is Not else item
            if type(atom) is And or type(atom) is Or:
                left.append(item)
            elif fixed.setdefault(atom, not negated) is negated:
                return False
    if fixed.get(TRUE) is False or fixed.get(FALSE) is True:
        return False
    return _tables(left, fixed)


def _tables(formulas: Sequence[Expr], fixed: Mapping[Expr, bool]) -> bool:
    free = [a for a in dict.fromkeys(a for f in formulas for a in atoms(f)) if a not in fixed]
    size = 1 << len(free)
    every = (1 << size) - 1
    tables = {atom: every if value else 0 for atom, value in fixed.items()}
    tables |= {TRUE: every, FALSE: 0}
    for index, atom in enumerate(free):
        run = 1 << index
        # runs of 2**index assignments without the atom and as many with it, over and over
        tables[atom] = every // ((1 << run) + 1) << run
    whole = every
    for item in formulas:
        whole &= _table(item, tables, every)
        if not whole:
            return False
    return True


def _table(expr: Expr, tables: Mapping[Expr, int], every: int) -> int:
    if type(expr) is Not:
        return every ^ _table(expr.value, tables, every)
    if type(expr) is And:
        found = every
        for item in expr.items:
            found &= _table(item, tables, every)
        return found
    if type(expr) is Or:
        found = 0
        for item in expr.items:
            found |= _table(item, tables, every)
        return found
    return tables[expr]


def _theory(known: list[Expr]) -> list[Expr]:
    """What holds between atoms whatever they mean."""
    facts: list[Expr] = []
    none = Const("None")
    for index, a in enumerate(known):
        if isinstance(a, Compare) and a.op == "is" and a.right == none:
            if a.left in known:
                facts.append(disjunction((negation(a), negation(a.left))))
            continue
        if isinstance(a, Attr):
            has = Call(Name("hasattr"), (a.value, Const(repr(a.name))))
            if has in known:
                facts.append(disjunction((negation(a), has)))
        if isinstance(a, Compare) and isinstance(a.right, Attr) and a.op == "==":
            facts += [
                disjunction((negation(a), negation(b)))
                for b in known[index + 1 :]
                if isinstance(b, Compare) and b.op == "==" and b.left == a.left
                if _are_members(a.right, b.right)
            ]
        if not (isinstance(a, Compare) and isinstance(a.right, Const)):
            continue
        is_none = Compare(a.left, "is", none)
        if is_none in known:
            facts.append(disjunction((negation(a), negation(is_none))))
        left = formula(a.left)
        if all(atom in known for atom in atoms(left)):
            truth = _truth_of(a)
            if truth is not None:
                facts.append(disjunction((negation(a), left if truth else negation(left))))
            if a.op == ">" and a.right == Const("0"):
                facts.append(disjunction((a, negation(left))))  # what is counted is not negative
        for b in known[index + 1 :]:
            if isinstance(b, Compare) and b.left == a.left and isinstance(b.right, Const):
                facts += _between(a, b)
    return facts


def _are_members(a: Attr, b: Expr) -> bool:
    """Whether two values are different constants of one enumeration: ``Mode.EXTEND``."""
    same = isinstance(b, Attr) and a.value == b.value and a.name != b.name
    return same and isinstance(b, Attr) and a.name.isupper() and b.name.isupper()


def _truth_of(a: Compare) -> bool | None:
    """Whether ``x`` is true where ``x op constant`` holds; None where that is open."""
    assert isinstance(a.right, Const)
    if a.op == "==":
        return formula(a.right) == TRUE
    number = _number(a.right.text)
    if number is not None and ((a.op == ">" and number >= 0) or (a.op == "<" and number <= 0)):
        return True
    return None


def _between(a: Compare, b: Compare) -> list[Expr]:
    assert isinstance(a.right, Const)
    assert isinstance(b.right, Const)
    if a.op == "==" and b.op == "==":
        return [disjunction((negation(a), negation(b)))]
    x, y = _number(a.right.text), _number(b.right.text)
    if x is None or y is None:
        return []
    found: list[Expr] = []
    for (p, m), (q, n) in (((a, x), (b, y)), ((b, y), (a, x))):
        if p.op == "==" and q.op in "<>":
            holds = m < n if q.op == "<" else m > n
            found.append(disjunction((negation(p), q if holds else negation(q))))
        elif p.op == q.op and ((p.op == ">" and m >= n) or (p.op == "<" and m <= n)):
            found.append(disjunction((negation(p), q)))
        elif p.op == ">" and q.op == "<" and m >= n:
            found.append(disjunction((negation(p), negation(q))))
    return found


def implies(premises: Sequence[Expr], conclusion: Expr) -> bool:
    """Whether ``premises`` force ``conclusion``; False where there are too many atoms to tell."""
    return not satisfiable((*premises, negation(conclusion)))


def relevant(premises: Iterable[Expr], about: Iterable[Expr]) -> list[Expr]:
    """Those of ``premises`` that say something of the atoms of ``about``, one through another.

    The time that a question takes doubles with each atom.
    """
    left = [(premise, _subjects(premise)) for premise in premises]
    known = {subject for expr in about for subject in _subjects(expr)}
    found: list[Expr] = []
    while near := [item for item in left if not known.isdisjoint(item[1])]:
        found += [premise for premise, _ in near]
        known.update(*(subjects for _, subjects in near))
        left = [item for item in left if item not in near]
    return found


def _subjects(expr: Expr) -> set[Expr]:
    """The atoms of a formula, comparisons by what is compared."""
    return {atom.left if isinstance(atom, Compare) else atom for atom in atoms(expr)}


def show(expr: Expr) -> str:
    """The expression as Python, for a message."""
    return _show(expr, 0)


def _show(expr: Expr, level: int) -> str:
    """``level``: 0 anywhere, 1 in an ``or``, 2 in an ``and``, 3 in a ``not`` or a comparison."""
    if isinstance(expr, Name):
        return expr.id.rpartition(":")[2]
    if isinstance(expr, Const):
        return expr.text
    if isinstance(expr, Attr):
        return f"{_show(expr.value, 3)}.{expr.name}"
    if isinstance(expr, Call):
        parts = [_show(a, 0) for a in expr.args]
        parts += ["*..."] * expr.star
        parts += [f"{k}={_show(v, 0)}" for k, v in expr.keywords]
        parts += ["**..."] * expr.double_star
        return f"{_show(expr.func, 3)}({', '.join(parts)})"
    if isinstance(expr, Item):
        index = _show(expr.index, 0) if expr.index is not None else "..."
        return f"{_show(expr.value, 3)}[{index}]"
    if isinstance(expr, Seq):
        return f"({', '.join(_show(i, 0) for i in expr.items)})"
    if isinstance(expr, Opaque):
        return "..."
    if isinstance(expr, Not):
        inner = expr.value
        if isinstance(inner, Compare):
            op = {v: k for k, v in _NEGATED.items()}.get(inner.op)
            if op is not None:
                return _show(Compare(inner.left, op, inner.right), level)
        text, own = f"not {_show(inner, 3)}", 3
    elif isinstance(expr, Compare):
        text, own = f"{_show(expr.left, 4)} {expr.op} {_show(expr.right, 4)}", 3
    elif isinstance(expr, And):
        text, own = " and ".join(_show(i, 2) for i in expr.items), 1
        own = 2
    elif isinstance(expr, Or):
        text, own = " or ".join(_show(i, 1) for i in expr.items), 1
    else:
        text = f"{_show(expr.then, 1)} if {_show(expr.test, 1)} else {_show(expr.other, 1)}"
        own = 0
    return (
        text if own >= level and not (level == own == 3 and isinstance(expr, Not)) else f"({text})"
    )
