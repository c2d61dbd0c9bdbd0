"""In which order a class and its bases are looked through."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lint_rules.link import Klass

__all__ = ["linearised"]


def linearised(klass: Klass, active: frozenset[Klass] = frozenset()) -> tuple[Klass, ...]:
    """The C3 linearisation; where the bases do not allow one, depth first."""
    if klass.mro:
        return klass.mro
    if klass in active:
        return (klass,)
    inside = active | {klass}
    sequences = [list(linearised(base, inside)) for base in klass.bases]
    sequences.append(list(klass.bases))
    result = [klass]
    while any(sequences):
        for sequence in sequences:
            if not sequence:
                continue
            head = sequence[0]
            if not any(head in other[1:] for other in sequences):
                break
        else:
            rest = [k for sequence in sequences for k in sequence if k not in result]
            return (*result, *dict.fromkeys(rest))
        result.append(head)
        for sequence in sequences:
            if sequence and sequence[0] is head:
                del sequence[0]
    return tuple(dict.fromkeys(result))
