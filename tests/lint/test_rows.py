"""What bytes alone say of a file."""

from __future__ import annotations

import re

from hypothesis import example, given
from hypothesis import strategies as st

from lint_rules.rows import containing, row_of

WORDS = ["Backend", "FastBackend", "BackendPool", "backend", "Pool", "x1", "1", "_", "a"]
TEXTS = st.lists(st.sampled_from([*WORDS, "\n", "\r\n", "\t", " ", ".", "(", '"']), max_size=30)


@example([["a", "\n", "Backend"]], {"Backend"})
@given(st.lists(TEXTS, max_size=4), st.sets(st.sampled_from(WORDS[:6]), min_size=1))
def test_a_name_is_found_where_it_stands_as_a_word(texts: list[list[str]], names: set[str]) -> None:
    sources = {str(index): "".join(parts).encode() for index, parts in enumerate(texts)}
    words = {path: set(re.findall(r"\w+", data.decode())) for path, data in sources.items()}
    assert {name: set(paths) for name, paths in containing(names, sources).items()} == {
        name: {path for path in sources if name in words[path]} for name in names
    }


def test_renamings_are_read_where_the_words_stand() -> None:
    data = b"from a import (B as C,\nD\tas\tE)\nF = G\n H\t=\tI \nj = K\r\nlower = name\n= L\n"
    assert row_of(data, None, b"", b"#").renamings == (
        ("B", "C"), ("D", "E"), ("G", "F"), ("I", "H"), ("K", "j"),
    )  # fmt: skip
