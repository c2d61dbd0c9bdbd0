"""The finished report of a tree, kept under everything that it was made of.

An unchanged tree is answered from here, with neither parser nor linker loaded.
"""

from __future__ import annotations

import json
import marshal
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from lint_rules.cache import Cache, digest
from lint_rules.config import Config
from lint_rules.report import Report, packed, unpacked
from lint_rules.tree import list_files, racy

__all__ = ["Asked", "recall", "remember"]


class Asked:
    """What a check is asked, and what stands on disk before it reads anything."""

    def __init__(
        self,
        targets: Sequence[Path],
        config: Config,
        changed: Collection[Path] | None = None,
    ) -> None:
        self.targets = tuple(targets)
        self.config = config
        self.changed = tuple(sorted(changed)) if changed is not None else None
        self.clock_ns = time.time_ns()
        self.listing = list_files(targets, config)
        question = repr((self.targets, config, self.changed))
        self._asked = question.encode("utf-8", "surrogateescape")

    def again(self) -> Asked:
        """The same, of what stands on disk now."""
        return Asked(self.targets, self.config, self.changed)

    def key(self) -> bytes:
        """Names the question and every file's identity."""
        # marshal's version 2 has no references, so that equal values give equal bytes
        return digest(b"identities", self._asked, marshal.dumps(self.listing.files, 2))

    def key_by_content(self, hashes: Mapping[str, bytes]) -> bytes:
        """Names the question and every file's content, by path."""
        return digest(b"contents", self._asked, marshal.dumps(dict(hashes), 2))

    @property
    def settled(self) -> bool:
        """Whether an equal listing, later, proves that nothing was edited in between."""
        return not self.listing.failures and not any(
            racy(identity, self.clock_ns) for identity in self.listing.files.values()
        )


def recall(cache: Cache, key: bytes) -> Report | None:
    """The report that was kept under ``key``."""
    data = cache.read_report(key)
    return unpacked(json.loads(data)) if data is not None else None


def remember(cache: Cache, keys: Sequence[bytes], report: Report) -> None:
    """Keep ``report`` under each of ``keys``."""
    data = json.dumps(packed(report), separators=(",", ":")).encode()
    for key in keys:
        cache.write_report(key, data)
