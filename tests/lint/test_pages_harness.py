"""The harness itself: it must not pass a page by overlooking what stands there."""

from __future__ import annotations

import pytest

from tests.lint.pages_harness import Block, Expected, blocks, expectations, sections

PAGE = """\
# MLA101: hook-signature-drift

## Example

```python
# file: engine/base.py
## not a heading
class AttentionBackend: ...
# file: engine/child.py

def f(): ...  # error: MLA101 drops 'x'; and more; warning: MLA102 needs 'y'
```

```text
not python
```

## Use instead

### With a heading

```python
x = 1
```

## Limits

```python
ignored = True
```
"""


def test_blocks_hold_files_with_their_own_line_numbers() -> None:
    example, use_instead = blocks(PAGE)
    assert example.section == "Example"
    assert example.line == 5
    assert list(example.files) == ["engine/base.py", "engine/child.py"]
    assert example.files["engine/base.py"] == "## not a heading\nclass AttentionBackend: ...\n"
    assert example.expected() == [
        Expected("engine/child.py", 2, "error", "MLA101", "drops 'x'; and more"),
        Expected("engine/child.py", 2, "warning", "MLA102", "needs 'y'"),
    ]
    assert use_instead == Block("Use instead", 22, {"engine.py": "x = 1\n"})


def test_headings_inside_fences_are_no_sections() -> None:
    assert sections(PAGE) == ["Example", "Use instead", "Limits"]


def test_an_expectation_may_follow_another_comment() -> None:
    line = "x = 1  # mla-guard: ignore[MLA101] old  # warning: MLA001 nothing to ignore\n"
    assert list(expectations("a.py", line)) == [
        Expected("a.py", 1, "warning", "MLA001", "nothing to ignore")
    ]


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ("## Example\n```python\nx = 1\n", "the last fence is not closed"),
        (
            "## Example\n```python\nx = 1\n# file: a.py\n```\n",
            "line 4: the block's first line names no file",
        ),
        (
            "## Example\n```python\n# file: a.py\n# file: a.py\n```\n",
            "line 4: a.py stands twice in one block",
        ),
    ],
)
def test_a_malformed_page_is_an_error(page: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        blocks(page)
