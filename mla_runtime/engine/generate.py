"""Greedy decoding, one token per pass or several: the tokens are the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from mla_runtime.phase import ForwardMode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mla_runtime.engine.engine import TinyEngine

__all__ = ["Generation", "generate"]


@dataclass(frozen=True, slots=True)
class Generation:
    """``tokens`` per request, and how many of the ``drafted`` ones the target ``accepted``."""

    tokens: list[list[int]]
    passes: int
    """Passes of the target after the prefill."""
    drafted: int = 0
    accepted: int = 0


@torch.inference_mode()
def generate(
    engine: TinyEngine, prompts: Sequence[Sequence[int]], count: int, *, chunk: int | None = None
) -> Generation:
    """The next ``count`` tokens of every prompt, greedily.

    ``chunk``: tokens of a prompt per prefill pass; None prefills whole prompts.
    """
    pending = _prefill(engine, prompts, chunk)
    if engine.draft is None:
        return _one_by_one(engine, pending, count)
    return _by_chains(engine, pending, count)


def _prefill(engine: TinyEngine, prompts: Sequence[Sequence[int]], chunk: int | None) -> list[int]:
    """Read the prompts; the token after each. Every pass gives every request at least one token."""
    longest = max(len(prompt) for prompt in prompts)
    passes = 1 if chunk is None else -(-longest // chunk)
    pending: list[int] = []
    for index in range(passes):
        parts = [
            list(p[len(p) * index // passes : len(p) * (index + 1) // passes]) for p in prompts
        ]
        before = engine.requests.lengths
        out = engine.forward(ForwardMode.EXTEND, parts)
        last = torch.tensor([len(part) for part in parts]).cumsum(0) - 1
        following = out.logits[last.to(out.logits.device)].argmax(-1).tolist()
        engine.requests.append(parts)
        if engine.draft is not None:
            ends = [len(p) * (index + 1) // passes for p in prompts]
            ahead = [
                [*part[1:], prompt[end] if end < len(prompt) else token]
                for part, prompt, end, token in zip(parts, prompts, ends, following, strict=True)
            ]
            engine.draft.extend(ForwardMode.EXTEND, before, ahead, out.hidden)
        pending = following
    return pending


def _one_by_one(engine: TinyEngine, pending: list[int], count: int) -> Generation:
    tokens = [[token] for token in pending]
    for _ in range(count - 1):
        new = [[request[-1]] for request in tokens]
        out = engine.forward(ForwardMode.DECODE, new)
        engine.requests.append(new)
        for request, token in zip(tokens, out.logits.argmax(-1).tolist(), strict=True):
            request.append(token)
    return Generation(tokens, count - 1)


def _by_chains(engine: TinyEngine, pending: list[int], count: int) -> Generation:
    """Draft, target verify, draft extend, until every request has its tokens."""
    draft = engine.draft
    assert draft is not None
    tokens = [[token] for token in pending]
    passes = drafted = accepted = 0
    while min(len(request) for request in tokens) < count:
        chains = [[last, *chain] for last, chain in zip(pending, draft.propose(), strict=True)]
        before = engine.requests.lengths
        out = engine.forward(ForwardMode.TARGET_VERIFY, chains)
        width = len(chains[0])
        targets = out.logits.argmax(-1).view(len(chains), width).tolist()
        right = [
            _agreeing(chain[1:], target) for chain, target in zip(chains, targets, strict=True)
        ]
        engine.backend.update_mamba_state_after_mtp_verify(
            torch.tensor(right, device=out.logits.device)
        )
        engine.requests.append([chain[: n + 1] for chain, n in zip(chains, right, strict=True)])
        new = [[*chain[1 : n + 1], target[n]]
               for chain, target, n in zip(chains, targets, right, strict=True)]  # fmt: skip
        kept = [row * width + i for row, n in enumerate(right) for i in range(n + 1)]
        draft.extend(ForwardMode.DRAFT_EXTEND_V2, before, new, out.hidden[kept])
        for request, more in zip(tokens, new, strict=True):
            request.extend(more)
        pending = [request[-1] for request in tokens]
        passes += 1
        drafted += len(chains) * (width - 1)
        accepted += sum(right)
    return Generation([request[:count] for request in tokens], passes, drafted, accepted)


def _agreeing(drafted: Sequence[int], target: Sequence[int]) -> int:
    """How many drafted tokens are what the target says, from the first one on."""
    for index, token in enumerate(drafted):
        if token != target[index]:
            return index
    return len(drafted)
