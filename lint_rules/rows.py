"""What one file says by itself, found in its bytes: enough to tell whether it can matter."""

from __future__ import annotations

import re
import string
from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec

from lint_rules.tree import Identity

__all__ = ["Row", "containing", "needles", "row_of", "shortest"]


class Row(msgspec.Struct, array_like=True, gc=False):
    """A file's row.

    ``identity`` is None where it proves nothing; ``content`` a
    digest of the bytes; ``headers`` are its classes with the words among their bases, ``renamings``
    the names to which it gives another, with that one, ``eithers`` the pairs of classes of which
    its functions return one or the other. ``hits`` are the names that stand in it, of all those
    that were looked for; ``needles`` what it holds instances of ``asked`` in.
    """

    identity: Identity | None
    content: bytes
    marked: bool
    headers: tuple[tuple[str, tuple[str, ...]], ...]
    renamings: tuple[tuple[str, str], ...]
    eithers: tuple[tuple[str, str], ...]
    hits: set[str] = set()
    asked: tuple[str, ...] = ()
    needles: tuple[str, ...] = ()


def row_of(data: bytes, identity: Identity | None, content: bytes, marker: bytes) -> Row:
    """The row of a file that holds ``data``."""
    return Row(
        identity,
        content,
        marker in data,
        tuple(_headers(data)) if b"class" in data else (),
        tuple(dict.fromkeys(_renamings(data))),
        tuple(dict.fromkeys(_eithers(data))),
    )


_HEADER = re.compile(rb"class[ \t]+([\w\x80-\xff]+)[ \t]*(?=[\[(:])")
_NESTING = re.compile(rb"[\[\](){}]|:|\#[^\n]*")
_WORD_BYTES = string.ascii_letters.encode() + string.digits.encode() + b"_"
_WORD = re.compile(rb"[A-Za-z_\x80-\xff][\w\x80-\xff]*")


def _headers(data: bytes) -> Iterator[tuple[str, tuple[str, ...]]]:
    for start in _places(data, b"class ", b"class\t"):
        match = _HEADER.match(data, start)
        if match is None or data[data.rfind(b"\n", 0, start) + 1 : start].strip(b" \t"):
            continue
        words = _WORD.findall(_bases(data, match.end()))
        name, *bases = (word.decode(errors="replace") for word in (match.group(1), *words))
        yield name, tuple(dict.fromkeys(bases))


def _places(data: bytes, *texts: bytes) -> Iterator[int]:
    """Where the ``texts`` stand. A search for plain bytes is many times faster than a pattern."""
    if len(texts) > 1 and b"\t" not in data:
        texts = tuple(text for text in texts if b"\t" not in text)
    for text in texts:
        start = data.find(text)
        while start >= 0:
            yield start
            start = data.find(text, start + 1)


def _bases(data: bytes, start: int) -> bytes:
    """What stands between a class's name and the colon that ends its header, comments left out."""
    depth, kept, begin = 0, [], start
    for match in _NESTING.finditer(data, start):
        token = match.group()
        if token[:1] == b"#":
            kept.append(data[begin : match.start()])
            begin = match.end()
        elif token in b"[({":
            depth += 1
        elif token in b"])}":
            depth -= 1
        elif depth == 0:
            break
    else:
        return b""
    return b"".join(kept) + data[begin : match.start()]


_AS = re.compile(rb"as[ \t]+([A-Za-z_]\w*)")
_ASSIGNED = re.compile(rb"=[ \t]*([A-Z_]\w*)[ \t]*\r?\n")


def _renamings(data: bytes) -> Iterator[tuple[str, str]]:
    """``Name as X`` and ``X = Name`` lines: the name and ``X``."""
    for start in _places(data, b" as ", b" as\t", b"\tas ", b"\tas\t"):
        match = _AS.match(data, start + 1)
        if match is not None and (source := _before(data, start)):
            yield source, match.group(1).decode()
    for match in _ASSIGNED.finditer(data):
        if target := _before(data, match.start()):
            yield match.group(1).decode(), target


def _before(data: bytes, offset: int) -> str:
    """The word that ends at ``offset``, white space aside."""
    line = data[data.rfind(b"\n", 0, offset) + 1 : offset].rstrip(b" \t")
    return _last_word(line).decode()


def _last_word(text: bytes) -> bytes:
    """The word that ``text`` ends with: a pattern would try every place before it."""
    return text[len(text.rstrip(_WORD_BYTES)) :]


_NAME = rb"[\"']?(?:\w+\.)*([A-Z]\w*)[\"']?"
_EITHER = re.compile(
    rb"->\s*[\"']?(?:Optional\[\s*)?(?:(?:typing\.)?Union\[\s*" + _NAME + rb"\s*,\s*" + _NAME
    + rb"\s*(?:,\s*None\s*)?,?\s*\]|(?:\w+\.)*([A-Z]\w*)\s*\|\s*(?:\w+\.)*([A-Z]\w*)\b)"
)  # fmt: skip


def _eithers(data: bytes) -> Iterator[tuple[str, str]]:
    """The two classes, by name, of each function that is annotated to return one or the other."""
    if b"->" in data and (b"Union[" in data or b" | " in data):
        for match in _EITHER.finditer(data):
            first, second = (name.decode() for name in match.groups() if name is not None)
            if first != second:
                yield first, second


_HUMP = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


_MOST_SEARCHES = 12
"""So many searches of a file take as long as taking it apart into words."""
_WORD_END = re.compile(rb"\w*")


def containing(names: Collection[str], sources: Mapping[str, bytes]) -> dict[str, list[str]]:
    """The files in which each of ``names`` stands as a word.

    Most names share a word of theirs, ``Backend``: that is searched for, and what stands around it
    looked up, so that time grows with the files and not with the files times the names.
    """
    found: dict[str, list[str]] = {name: [] for name in names}
    for part, group in _by_part(names):
        wanted = {name.encode(): name for name in group}
        for path, data in sources.items():
            words = _around(data, part) if part else set(_WORD.findall(data))
            for word in words & wanted.keys():
                found[wanted[word]].append(path)
    return found


def _around(data: bytes, part: bytes) -> set[bytes]:
    """The words in which ``part`` stands."""
    return {
        _last_word(data[max(0, start - 200) : start]) + _WORD_END.match(data, start).group()  # type: ignore[union-attr]
        for start in _places(data, part)
    }


def _by_part(names: Collection[str]) -> Iterator[tuple[bytes, list[str]]]:
    """``names`` in groups that share a part, with that part; many that do not with an empty one."""
    left = sorted(names)
    while left:
        humps: dict[str, int] = {}
        for name in left:
            for hump in {h for h in _HUMP.findall(name) if len(h) > 3}:
                humps[hump] = humps.get(hump, 0) + 1
        part = max(humps, key=lambda h: (humps[h], h), default="")
        if not part or humps[part] == 1:
            if len(left) > _MOST_SEARCHES:
                yield b"", left
            else:
                yield from ((name.encode(), [name]) for name in left)
            return
        yield part.encode(), [name for name in left if part in name]
        left = [name for name in left if part not in name]


_ANNOTATED = re.compile(rb"(\w+)[ \t]*:[ \t]*[\"']?(?:[\w.]+\[[ \t]*)*[\"']?(?:\w+\.)*$")
_ASSIGNMENT = re.compile(rb"\.(\w+)[ \t]*=[ \t]*(?:\w+\.)*$")
_BUILT = re.compile(rb"\breturn[ \t]+(?:\w+\.)*$")
_ARROW = re.compile(rb"\)[ \t]*->[ \t]*[\"']?(?:[\w.]+\[[ \t]*)*[\"']?(?:\w+\.)*$")
_SIGNATURE = re.compile(rb"def[ \t]+(\w+)[ \t]*\([^()]*(?:\([^()]*\)[^()]*)*\)$")
_AFTER = re.compile(rb"\w")


def needles(data: bytes, names: tuple[str, ...]) -> tuple[str, ...]:
    """Attributes, parameters and functions annotated with, or assigned from, one of ``names``."""
    found: set[bytes] = set()
    for name in names:
        text = name.encode()
        for start in _places(data, text):
            end = start + len(text)
            if _AFTER.match(data, end):
                continue
            line = data[data.rfind(b"\n", 0, start) + 1 : start]
            if (match := _ANNOTATED.search(line)) is not None:
                found.add(match.group(1))
            if (match := _ARROW.search(line)) is not None:
                offset = start - len(line) + match.start() + 1
                header = data.rfind(b"def ", 0, offset)
                if (match := _SIGNATURE.match(data[max(header, 0) : offset])) is not None:
                    found.add(match.group(1))
            if data[end : end + 1] == b"(":
                if (match := _ASSIGNMENT.search(line)) is not None:
                    found.add(match.group(1))
                if _BUILT.search(line) is not None:
                    header = data.rfind(b"def ", 0, start)
                    match = _WORD.match(data, header + 4) if header >= 0 else None
                    found.update([match.group()] if match is not None else [])
    return tuple(sorted(needle.decode(errors="replace") for needle in found))


def shortest(names: Iterable[str]) -> list[bytes]:
    """The names that contain no other of them: who has the longer has the shorter."""
    kept: list[str] = []
    for name in sorted(set(names), key=len):
        if not any(short in name for short in kept):
            kept.append(name)
    return [name.encode() for name in kept]
