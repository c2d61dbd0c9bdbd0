"""How many query and cached tokens each request of a batch has, on the device and on the host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from mla_runtime.phase import Phase

if TYPE_CHECKING:
    from mla_runtime.protocols import ForwardBatchLike
    from mla_runtime.settings import EngineSettings

__all__ = ["BatchLengths", "captured_draft_tokens", "lengths_of", "query_lens"]


@dataclass(frozen=True, slots=True)
class BatchLengths:
    """``kv[B]``: cached tokens after the pass, its own included; ``queries``: its own, per request
    or one number for all. The ``_cpu`` values are the host's.
    """

    kv: torch.Tensor
    kv_cpu: torch.Tensor
    queries: torch.Tensor | int
    queries_cpu: torch.Tensor | int

    @property
    def prefix(self) -> torch.Tensor:
        """Cached tokens before the pass, ``[B]``: on a device, a launch each time."""
        return self.kv - self.queries

    @property
    def prefix_cpu(self) -> torch.Tensor:
        return self.kv_cpu - self.queries_cpu

    @property
    def has_prefix(self) -> bool:
        return bool((self.prefix_cpu > 0).any())

    @property
    def q_cpu(self) -> torch.Tensor:
        """Query tokens per request, ``[B]``."""
        return self.kv_cpu - self.prefix_cpu


def lengths_of(
    forward_batch: ForwardBatchLike,
    phase: Phase,
    settings: EngineSettings,
    *,
    in_graph: bool = False,
) -> BatchLengths:
    """The lengths of a batch, from its host mirrors where it has them.

    In target verify ``seq_lens`` excludes the draft tokens; everywhere else it includes the pass's
    own. A captured draft extend has ``speculative_num_draft_tokens`` queries per request.

    Raises:
        ValueError: the batch lacks the lengths of its phase, or drafts a tree (``topk > 1``).
    """
    seq_lens = forward_batch.seq_lens
    seq_lens_cpu = forward_batch.seq_lens_cpu
    if seq_lens_cpu is None:
        seq_lens_cpu = seq_lens.cpu()
    queries, queries_cpu = query_lens(forward_batch, phase, settings, in_graph=in_graph)
    if phase is Phase.TARGET_VERIFY:
        seq_lens, seq_lens_cpu = seq_lens + queries, seq_lens_cpu + queries_cpu
    return BatchLengths(seq_lens, seq_lens_cpu, queries, queries_cpu)


def query_lens(
    forward_batch: ForwardBatchLike,
    phase: Phase,
    settings: EngineSettings,
    *,
    in_graph: bool = False,
) -> tuple[torch.Tensor | int, torch.Tensor | int]:
    """Query tokens per request, on the device and on the host: one number where all are equal.

    Raises:
        ValueError: as ``lengths_of``.
    """
    if phase in (Phase.DECODE, Phase.IDLE):
        return 1, 1
    if phase is Phase.TARGET_VERIFY:
        draft = draft_token_num(forward_batch)
        return draft, draft
    if phase is Phase.DRAFT_EXTEND and in_graph:
        captured = captured_draft_tokens(phase, settings)
        return captured, captured
    extend, extend_cpu = forward_batch.extend_seq_lens, forward_batch.extend_seq_lens_cpu
    if extend is None or extend_cpu is None:
        raise ValueError(
            f"{forward_batch.forward_mode.name} batch has extend_seq_lens="
            f"{'unset' if extend is None else 'set'} and extend_seq_lens_cpu={extend_cpu}; both "
            f"are needed to plan it"
        )
    return extend, torch.tensor(extend_cpu, dtype=torch.int64)


def captured_draft_tokens(phase: Phase, settings: EngineSettings) -> int:
    """Query tokens per request of a captured verify or draft extend.

    Raises:
        ValueError: the engine's settings do not say.
    """
    draft = settings.speculative_num_draft_tokens
    if draft is None:
        raise ValueError(
            f"a captured {phase.value} needs server_args.speculative_num_draft_tokens, the number "
            f"of its query tokens per request; it is None"
        )
    return draft


def draft_token_num(forward_batch: ForwardBatchLike) -> int:
    """Draft tokens per request of a target verify.

    Raises:
        ValueError: no ``spec_info``, or a draft tree, whose mask the MLA kernels do not take.
    """
    spec_info = forward_batch.spec_info
    draft = getattr(spec_info, "draft_token_num", None)
    if draft is None:
        raise ValueError("a TARGET_VERIFY batch needs spec_info.draft_token_num; it has none")
    topk = getattr(spec_info, "topk", 1)
    if topk > 1:
        raise ValueError(
            f"spec_info.topk={topk}: the MLA kernels verify a chain of drafts, expected topk=1"
        )
    return int(draft)
