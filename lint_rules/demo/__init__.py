"""A small engine whose backends carry one of each fault; its files are read, never imported."""

from __future__ import annotations

from pathlib import Path

__all__ = ["DESCRIPTION", "ENGINE"]

ENGINE = Path(__file__).parent / "engine"

DESCRIPTION = """\
A serving engine in miniature: a base class, six backends, four wrappers, three speculative workers
and the code that calls them. It carries one of each fault that mla-guard knows, each modelled on a
public incident; `mla-guard rule CODE` tells which."""
