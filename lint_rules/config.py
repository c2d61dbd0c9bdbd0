"""What to read and what to report: ``[tool.mla-guard]``, and the project around the given paths."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from lint_rules.nearest import nearest
from lint_rules.target import TargetError, inside, project_of, resolve
from mla_guard.diagnostic import LINT_RULES, Severity

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

__all__ = ["Config", "ConfigError", "expand_codes", "load_config"]

_SEVERITIES: tuple[Severity, ...] = get_args(Severity)


class ConfigError(ValueError):
    """A setting that cannot be used: the message names the place, the value and what it may be."""


@dataclass(frozen=True, slots=True)
class Config:
    """The settings of one check; ``load_config`` fills them in from ``pyproject.toml``.

    ``src`` holds what is read (absolute directories and files); where it is empty, the targets are.
    ``stand_ins`` holds pairs of classes, by name, of which callers take the one or the other.
    ``exclude`` holds gitignore patterns, relative to ``root``, of files that are not read.
    ``select`` and ``ignore`` hold rule codes (empty ``select``: every rule); ``ignore`` wins.
    ``per_file_ignores`` holds a gitignore pattern, relative to ``root``, and the codes that are not
    reported in the files that it matches. ``baseline`` is the file of ``lint_rules.baseline``.
    """

    src: tuple[Path, ...] = ()
    bases: tuple[str, ...] = ()
    stand_ins: tuple[tuple[str, str], ...] = ()
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    min_severity: Severity = "warning"
    exclude: tuple[str, ...] = ()
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    baseline: Path | None = None
    root: Path = Path()

    def selects(self, code: str) -> bool:
        """Whether findings of ``code`` are wanted."""
        return (not self.select or code in self.select) and code not in self.ignore

    def shows(self, severity: Severity) -> bool:
        """Whether findings of ``severity`` are wanted."""
        return _SEVERITIES.index(severity) <= _SEVERITIES.index(self.min_severity)

    def excludes(self, path: str) -> bool:
        """Whether a pattern of ``exclude`` leaves ``path`` unread; a folder ends in a slash."""
        return bool(self.exclude) and self._matches(self.exclude, path)

    def ignores_in(self, path: str, code: str) -> bool:
        """Whether ``per_file_ignores`` says that ``code`` is not reported in the file ``path``."""
        return any(
            code in codes and self._matches((pattern,), path)
            for pattern, codes in self.per_file_ignores
        )

    def _matches(self, patterns: tuple[str, ...], path: str) -> bool:
        prefix = f"{self.root}{os.sep}"
        return path.startswith(prefix) and _patterns(patterns).match_file(path[len(prefix) :])


@lru_cache(maxsize=64)
def _patterns(lines: tuple[str, ...]) -> GitIgnoreSpec:
    from pathspec import GitIgnoreSpec

    return GitIgnoreSpec.from_lines(lines)


def load_config(targets: Sequence[Path]) -> Config:
    """The settings for a check that reports on ``targets``, and what it has to read.

    That is ``src`` of the ``[tool.mla-guard]`` that governs the targets, else the project around
    each target: the nearest ancestor with a ``pyproject.toml``, else the target itself. A target
    that has nothing in common with ``src`` is read as well.
    """
    projects = dict.fromkeys(project_of(target) for target in targets)
    tables = [(project, table) for project in projects if (table := _table(project)) is not None]
    if len(tables) > 1:
        names = " and ".join(str(project / "pyproject.toml") for project, _ in tables)
        raise ConfigError(f"{names} both have a [tool.mla-guard]: check one project at a time")
    if not tables:
        return Config(src=_outermost(projects))
    [(project, table)] = tables
    config = _parse(table, project)
    src = config.src or tuple(projects)
    apart = [t for t in targets if not any(inside(t, s) or inside(s, t) for s in src)]
    return replace(config, src=_outermost([*src, *apart]))


def _outermost(paths: Collection[Path]) -> tuple[Path, ...]:
    """``paths`` less those that lie inside another."""
    return tuple(dict.fromkeys(p for p in paths if not any(p != q and inside(p, q) for q in paths)))


def _table(project: Path) -> dict[str, Any] | None:
    """``[tool.mla-guard]`` of the project's ``pyproject.toml``, None where there is none."""
    path = project / "pyproject.toml"
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    if b"mla-guard" not in data:
        return None
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        document = tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from error
    tool = document.get("tool")
    table = tool.get("mla-guard") if isinstance(tool, dict) else None
    if table is not None and not isinstance(table, dict):
        raise ConfigError(f"{path}: tool.mla-guard: {table!r} is not a table")
    return table


def _parse(table: dict[str, Any], project: Path) -> Config:
    where = f"{project / 'pyproject.toml'}: [tool.mla-guard]"
    values: dict[str, Any] = {"root": project}
    for key, value in table.items():
        if key not in _KEYS:
            raise ConfigError(f"{where}: unknown key {key!r}{_nearest(key, _KEYS)}")
        values[key.replace("-", "_")] = _KEYS[key](value, f"{where}: {key}", project)
    return Config(**values)


def _strings(value: object, where: str, project: Path) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ConfigError(f"{where}: {value!r} is not a list of strings")
    for item in value:
        if not isinstance(item, str) or not item:
            raise ConfigError(f"{where}: {item!r} is not a non-empty string")
    return tuple(value)


def _sources(value: object, where: str, project: Path) -> tuple[Path, ...]:
    found: list[Path] = []
    for item in _strings(value, where, project):
        try:
            found += resolve(item, project)
        except TargetError as error:
            raise ConfigError(f"{where}: {error}") from error
    return tuple(found)


def _bases(value: object, where: str, project: Path) -> tuple[str, ...]:
    names = _strings(value, where, project)
    for name in names:
        if not all(part.isidentifier() for part in name.split(".")):
            raise ConfigError(
                f"{where}: {name!r} is not a class name, simple or dotted "
                "('AttentionBackend', 'engine.attention.AttentionBackend')"
            )
    return names


def _pairs(value: object, where: str, project: Path) -> tuple[tuple[str, str], ...]:
    found: list[tuple[str, str]] = []
    for item in _strings(value, where, project):
        first, _, other = (name.strip() for name in item.partition("|"))
        if not (first.isidentifier() and other.isidentifier()):
            raise ConfigError(
                f"{where}: {item!r} is not a pair of class names ('Algorithm | PluginAlgorithm')"
            )
        found.append((first, other))
    return tuple(found)


def _codes(value: object, where: str, project: Path) -> tuple[str, ...]:
    return expand_codes(_strings(value, where, project), where)


def _severity(value: object, where: str, project: Path) -> str:
    if value not in _SEVERITIES:
        allowed = " or ".join(map(repr, _SEVERITIES))
        raise ConfigError(f"{where}: {value!r} is not {allowed}{_nearest(value, _SEVERITIES)}")
    return str(value)


def _exclude(value: object, where: str, project: Path) -> tuple[str, ...]:
    patterns = _strings(value, where, project)
    for pattern in patterns:
        try:
            _patterns((pattern,))
        except ValueError as error:
            raise ConfigError(f"{where}: {pattern!r} is not a gitignore pattern") from error
    return patterns


def _per_file(value: object, where: str, project: Path) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if not isinstance(value, dict):
        raise ConfigError(f"{where}: {value!r} is not a table of patterns with lists of codes")
    for pattern in _exclude(list(value), where, project):
        if pattern.startswith("!"):
            raise ConfigError(
                f"{where}: {pattern!r}: a pattern names the files in which codes are ignored, "
                "it cannot take files out"
            )
    return tuple((p, _codes(codes, f"{where}: {p!r}", project)) for p, codes in value.items())


def _baseline(value: object, where: str, project: Path) -> Path:
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{where}: {value!r} is not the path of a file")
    return project / value


_KEYS: dict[str, Callable[[object, str, Path], object]] = {
    "src": _sources,
    "bases": _bases,
    "stand-ins": _pairs,
    "select": _codes,
    "ignore": _codes,
    "min-severity": _severity,
    "exclude": _exclude,
    "per-file-ignores": _per_file,
    "baseline": _baseline,
}


def expand_codes(
    names: Sequence[str], where: str, known: Mapping[str, str] = LINT_RULES
) -> tuple[str, ...]:
    """The codes that ``names`` stand for: codes, rule names, or prefixes such as ``MLA2``.

    ``where`` names the option or key in the error for a name that stands for none of ``known``.
    """
    found: list[str] = []
    for name in names:
        codes = [c for c, rule in known.items() if name == rule or c.startswith(name)]
        if not name or not codes:
            near = _nearest(name, [*known, *known.values()])
            raise ConfigError(
                f"{where}: unknown rule {name!r}, expected a code, a name or a prefix such as "
                f"'MLA2'{near}"
            )
        found += codes
    return tuple(dict.fromkeys(found))


def _nearest(value: object, known: Collection[str]) -> str:
    """A suggestion to append to a message about an unknown ``value``."""
    if close := nearest(str(value), known):
        return f" (did you mean {close!r}?)"
    return f" (known: {', '.join(known)})" if len(known) < 10 else ""
