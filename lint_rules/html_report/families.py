"""Classes, what they derive from and hold, and the matrix of their hooks, for the page."""

from __future__ import annotations

from lint_rules.chains import WORDS as CHAIN_WORDS
from lint_rules.chains import chains
from lint_rules.html_report.ends import Json
from lint_rules.html_report.trees import Tree
from lint_rules.link import Klass, Member
from lint_rules.matrix import (
    LETTERS,
    WORDS,
    Matrix,
    declaration,
    drifted,
    matrix_of,
    signature,
    spread,
)

__all__ = ["Families"]

STATES: list[Json] = [
    {"state": state, "letter": letter, "words": WORDS[state]} for state, letter in LETTERS.items()
]


class Families:
    """The families of a tree: numbers for classes and definitions, and the tables over them."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        judge = tree.judge
        self.roots = [*judge.view.roots, *judge.companion_roots]
        below = sorted(
            {k for root in self.roots for k in root.descendants if k.root is root},
            key=lambda k: (k.name, k.path),
        )
        self.classes = [*self.roots, *below]
        self.numbers = {klass: number for number, klass in enumerate(self.classes)}
        drift = drifted(judge)
        self.matrices = [matrix_of(judge, root, drift) for root in judge.view.roots]
        self._definitions: dict[Member, int] = {}

    @property
    def hooks(self) -> dict[tuple[str, str], list[str]]:
        """The hooks of each class that has cells, by file and qualified name."""
        return {
            (klass.path, klass.qualname): [hook.name for hook in table.hooks]
            for table in self.matrices
            for klass in (table.root, *table.rows)
        }

    def as_json(self) -> Json:
        """Everything but the findings."""
        tables = {table.root: self._table(table) for table in self.matrices}
        return {
            "classes": [self._class(klass) for klass in self.classes],
            "families": [
                {"root": self.numbers[root], "table": tables.get(root)} for root in self.roots
            ],
            "definitions": [self._definition(member) for member in self._definitions],
            "states": STATES,
            "chains": self._chains(),
            "chainWords": CHAIN_WORDS,
        }

    def _class(self, klass: Klass) -> Json:
        wrapper = self._tree.judge.view.wrapper(klass)
        root = klass.root or klass
        return {
            "name": klass.name,
            "qualname": klass.qualname,
            "path": self._tree.relative(klass.path),
            "line": klass.line,
            "root": self.numbers[root],
            "bases": [self.numbers[base] for base in klass.bases if base in self.numbers],
            "others": [base.name for base in klass.bases if base not in self.numbers],
            "missing": klass.unresolved,
            "holds": [
                {
                    "attr": attr,
                    "many": typed.many,
                    "classes": sorted(self.numbers[k] for k in typed.named if k in self.numbers),
                }
                for attr, typed in sorted((wrapper.held if wrapper is not None else {}).items())
            ],
        }

    def _table(self, table: Matrix) -> Json:
        judge = self._tree.judge
        return {
            "hooks": [
                {
                    "name": hook.name,
                    "declaration": declaration(hook),
                    "spread": spread(judge, table.root, hook),
                }
                for hook in table.hooks
            ],
            "rows": [
                {
                    "class": self.numbers[klass],
                    "letters": "".join(LETTERS[cell.state] for cell in cells),
                    "definitions": [self._number(cell.member) for cell in cells],
                }
                for klass, cells in table.rows.items()
            ],
        }

    def _number(self, member: Member | None) -> int | None:
        if member is None:
            return None
        return self._definitions.setdefault(member, len(self._definitions))

    def _definition(self, member: Member) -> Json:
        return {
            "owner": member.owner.qualname,
            "signature": signature(member) if member.function is not None else member.name,
            "path": self._tree.relative(member.owner.path),
            "line": member.line,
        }

    def _chains(self) -> Json | None:
        found = chains(self._tree.judge.view, self.classes)
        if not found:
            return None
        return {
            "names": list(found[0].cells),
            "rows": [{"chain": str(c), "letters": "".join(c.cells.values())} for c in found],
        }
