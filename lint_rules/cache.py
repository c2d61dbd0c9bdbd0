"""Files that a later check may use again: whole or not at all, and never needed.

Every file is written beside its place and moved there, so that readers see the old one or the new
one, whoever else writes and whenever a process is killed. It starts with a digest of the rest,
bound to the tool's own sources: what was cut short, damaged or written by another version reads as
absent. What cannot be written is not kept.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path

from lint_rules.config import Config

__all__ = ["Cache", "Memory", "cache_folder", "clear", "digest", "tool_version"]

FOLDER = ".mla_guard_cache"
_SIZE = 16
_REPORTS = "report-"
_MOST_REPORTS = 32
_STALE_SECONDS = 3600.0
_GITIGNORE = "# written by mla-guard\n*\n"


def digest(*parts: bytes | memoryview) -> bytes:
    """16 bytes that tell different sequences of ``parts`` apart."""
    found = blake2b(digest_size=_SIZE)
    for part in parts:
        found.update(len(part).to_bytes(8, "little"))
        found.update(part)
    return found.digest()


@lru_cache(maxsize=1)
def tool_version() -> bytes:
    """A digest of what decides on a result besides the checked sources.

    The sources of the linter (so that no edit of a development checkout meets what the code before
    it made), those of LibCST's version, and the interpreter.
    """
    here = Path(__file__).parent
    parts: list[bytes] = [sys.version.encode(), os.fsencode(sys.platform)]
    for folder in (here, here / "rules", here.parent / "mla_guard"):
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries if entry.name.endswith(".py"))
        for name in names:
            parts += [name.encode(), (folder / name).read_bytes()]
    parser = importlib.util.find_spec("libcst")
    if parser is not None and parser.origin is not None:
        with contextlib.suppress(OSError):
            parts.append(Path(parser.origin).with_name("_version.py").read_bytes())
    return digest(*parts)


def cache_folder(config: Config, targets: Sequence[Path]) -> Path:
    """Where the cache of a check stands.

    ``.mla_guard_cache`` in the project's root, if there is a ``pyproject.toml`` beside which it can
    be written; else a folder of the user's own, by the paths that are read.
    """
    tops = config.src or tuple(targets)
    root = config.root if config.root != Path() else tops[0]
    if (root / "pyproject.toml").is_file() and os.access(root, os.W_OK):
        return root / FOLDER
    name = digest(*(os.fsencode(top) for top in tops)).hex()
    return _user_folder() / name


def _user_folder() -> Path:
    """The platform's folder for caches, and ours in it."""
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        base = Path(local) if local else Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        set_to = os.environ.get("XDG_CACHE_HOME", "")
        base = Path(set_to) if os.path.isabs(set_to) else Path.home() / ".cache"
    return base / "mla-guard"


class Cache:
    """The files in one folder. Nothing here raises :class:`OSError`: a cache is never needed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, name: str) -> bytes | None:
        """What was last written as ``name``, None where there is nothing whole of this version."""
        try:
            data = (self._folder / name).read_bytes()
        except OSError:
            return None
        content = memoryview(data)[_SIZE:]
        if data[:_SIZE] != _seal(content):
            return None
        return bytes(content)

    def write(self, name: str, content: bytes) -> None:
        """Keep ``content`` as ``name``."""
        with contextlib.suppress(OSError):
            self._prepare()
            temporary = self._folder / f"{name}.{os.urandom(8).hex()}.tmp"
            try:
                with open(temporary, "xb") as file:
                    file.write(_seal(memoryview(content)))
                    file.write(content)
                os.replace(temporary, self._folder / name)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
                raise

    def read_report(self, key: bytes) -> bytes | None:
        return self.read(_REPORTS + key.hex())

    def write_report(self, key: bytes, content: bytes) -> None:
        """Keep a finished report; the oldest go once there are many."""
        self.write(_REPORTS + key.hex(), content)
        with contextlib.suppress(OSError):
            self._prune()

    def _prepare(self) -> None:
        if not self._folder.is_dir():
            self._folder.mkdir(parents=True, exist_ok=True)
            (self._folder / ".gitignore").write_text(_GITIGNORE)

    def _prune(self) -> None:
        with os.scandir(self._folder) as entries:
            found = [(entry.stat().st_mtime, entry.name) for entry in entries]
        reports = sorted(e for e in found if e[1].startswith(_REPORTS) and e[1][-4:] != ".tmp")
        newest = max(found)[0]
        abandoned = [e for e in found if e[1].endswith(".tmp") and e[0] < newest - _STALE_SECONDS]
        for _, name in (*reports[:-_MOST_REPORTS], *abandoned):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._folder / name)


class Memory(Cache):
    """What one run keeps for itself."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    def read(self, name: str) -> bytes | None:
        return self._kept.get(name)

    def write(self, name: str, content: bytes) -> None:
        self._kept[name] = content

    def _prune(self) -> None:
        """It is gone before it grows old."""


def _seal(content: memoryview) -> bytes:
    return digest(tool_version(), content)


def clear(folder: Path) -> int:
    """Remove what a cache keeps in ``folder`` and the folder itself; the number of files.

    Raises :class:`OSError` where something cannot be removed. Files that no cache writes stay.
    """
    count = 0
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return 0
    ours = (_REPORTS, "rows", "facts", "recent", "judged", ".gitignore")
    for name in names:
        if name.startswith(ours):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(folder / name)
                count += 1
    with contextlib.suppress(OSError):
        folder.rmdir()
    return count
