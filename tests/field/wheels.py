"""Released engines as test input: downloaded by version and hash, unpacked once, never imported."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["PINS", "cache_directory", "pins", "unpacked"]

PINS = Path(__file__).with_name("pins.toml")

# Engines publish for one interpreter and platform; the sources inside are the same for all.
_ANY_INTERPRETER = (
    *("--python-version", "3.11"),
    *("--implementation", "cp"),
    *("--abi", "cp311"),
    *("--abi", "abi3"),
    *("--abi", "none"),
    *("--platform", "manylinux_2_34_x86_64"),
    *("--platform", "manylinux_2_28_x86_64"),
    *("--platform", "manylinux2014_x86_64"),
    "--only-binary=:all:",
)


def pins() -> dict[str, dict[str, str | dict[str, str]]]:
    """Distribution name to version to SHA-256 of its wheel, or ``{"sdist": SHA-256}``."""
    return tomllib.loads(PINS.read_text(encoding="utf-8"))


def unpacked(name: str, version: str) -> Path:
    """The directory that holds the ``.py`` files of the pinned release, downloaded if need be.

    A download that fails is an error with pip's words: a missing network must not pass as success.
    """
    pin = pins()[name][version]
    digest = pin if isinstance(pin, str) else pin["sdist"]
    target = cache_directory() / f"{name}-{version}-{digest[:12]}"
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".unpacking-") as scratch:
        sources = Path(scratch, "sources")
        if isinstance(pin, str):
            _extract(_download(f"{name}=={version}", digest, Path(scratch)), sources)
        else:
            _keep_sources(_unpack_sdist(f"{name}=={version}", digest, Path(scratch)), sources)
        try:
            sources.rename(target)
        except OSError:
            if not target.is_dir():  # otherwise another process was faster
                raise
    return target


def cache_directory() -> Path:
    """Where unpacked releases are kept: ``MLA_GUARD_FIELD_CACHE``, else the user's cache."""
    if given := os.environ.get("MLA_GUARD_FIELD_CACHE"):
        return Path(given).absolute()
    if sys.platform == "darwin":
        user = Path.home() / "Library" / "Caches"
    elif sys.platform == "win32":
        user = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    else:
        user = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    return user / "mla-guard" / "field"


def _pip_download(
    requirement: str, digest: str, directory: Path, *flags: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run ``pip download`` into ``directory``; pip refuses an archive with another hash."""
    pinned = directory / "requirements.txt"
    pinned.write_text(f"{requirement} --hash=sha256:{digest}\n", encoding="utf-8")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
    command += [*flags, "--dest", str(directory), "--requirement", str(pinned)]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )


def _download(requirement: str, digest: str, directory: Path) -> Path:
    """The wheel of ``requirement``."""
    done = _pip_download(requirement, digest, directory, *_ANY_INTERPRETER)
    if done.returncode:
        raise RuntimeError(f"{requirement} cannot be downloaded:\n{done.stderr.strip()}")
    [wheel] = directory.glob("*.whl")
    return wheel


def _unpack_sdist(requirement: str, digest: str, directory: Path) -> Path:
    """The unpacked source archive of ``requirement``.

    pip unpacks an archive and then asks it for its metadata, which would run the engine's own
    ``setup.py``. A ``setuptools`` that refuses to be imported stands in the way; the unpacked tree
    is left behind.
    """
    blocked = directory / "blocked" / "setuptools"
    blocked.mkdir(parents=True)
    (blocked / "__init__.py").write_text("raise ImportError('nothing is built')\n", "utf-8")
    flags = ("--no-binary=:all:", "--no-build-isolation", "--no-cache-dir", "--no-clean")
    environment = {"TMPDIR": str(directory), "PYTHONPATH": str(blocked.parent)}
    done = _pip_download(requirement, digest, directory, *flags, **environment)
    trees = [info.parent for info in directory.glob("pip-download-*/*/PKG-INFO")]
    if len(trees) != 1:
        raise RuntimeError(f"{requirement} cannot be downloaded:\n{done.stderr.strip()}")
    return trees[0]


def _keep_sources(tree: Path, directory: Path) -> None:
    """Move the packages of an unpacked source archive, their ``.py`` files only."""
    for path in sorted(tree.rglob("*.py")):
        place = directory / path.relative_to(tree)
        place.parent.mkdir(parents=True, exist_ok=True)
        path.rename(place)


def _extract(wheel: Path, directory: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.endswith(".py")]
        if not names:
            raise RuntimeError(f"{wheel.name} holds no Python source")
        archive.extractall(directory, names)
