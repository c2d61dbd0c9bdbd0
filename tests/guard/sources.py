"""vLLM's sources. Its wheels are hundreds of megabytes, so the source archive is unpacked."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.field.wheels import cache_directory

__all__ = ["vllm"]

VERSION = "0.14.0"
SHA256 = "ed86c6a9d22fbfd059648794493cad88444c71688f3ff6efcb26c5ca353f0e5d"


def vllm() -> Path:
    """The directory that holds vLLM's ``.py`` files, downloaded by version and hash if need be.

    pip unpacks the archive and then fails, since building its metadata takes torch; what it has
    unpacked by then is what is wanted. A download that fails is an error with pip's words.
    """
    target = cache_directory() / f"vllm-{VERSION}-{SHA256[:12]}"
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".unpacking-") as scratch:
        pinned = Path(scratch, "requirements.txt")
        pinned.write_text(f"vllm=={VERSION} --hash=sha256:{SHA256}\n", encoding="utf-8")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-clean"]
        command += ["--no-cache-dir", "--no-binary=:all:", "--no-build-isolation"]
        command += ["--require-hashes", "--dest", scratch, "--requirement", str(pinned)]
        done = subprocess.run(
            command,
            env={**os.environ, "TMPDIR": scratch},
            capture_output=True,
            text=True,
            check=False,
        )
        found = [path.parent for path in Path(scratch).glob("*/*/vllm/v1")]
        if not found:
            raise RuntimeError(f"vllm {VERSION} cannot be downloaded:\n{done.stderr.strip()}")
        kept = Path(scratch, "kept")
        for path in found[0].rglob("*.py"):
            copy = kept / "vllm" / path.relative_to(found[0])
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
        kept.rename(target)
    return target
