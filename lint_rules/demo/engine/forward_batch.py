from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from engine.base import AttentionBackend
    from engine.forward_mode import ForwardMode


@dataclass
class ForwardBatch:
    """One batch on its way through the model."""

    forward_mode: ForwardMode
    batch_size: int
    seq_lens: torch.Tensor
    prefix_chunk_cu_seq_lens: torch.Tensor
    is_target_verify: bool = False
    attn_backend: AttentionBackend | None = None
    halves: tuple[ForwardBatch, ...] = ()
