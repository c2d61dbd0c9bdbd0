"""Between latent rows and heads: the up-projection of MLA, applied or absorbed."""

from __future__ import annotations

import torch

__all__ = ["LatentHeads"]


class LatentHeads:
    """Views of ``kv_b_proj``'s weight, ``[heads * (nope + v), kv_lora_rank]``."""

    def __init__(self, weight: torch.Tensor, qk_nope_head_dim: int, v_head_dim: int) -> None:
        """Split the weight by head.

        Raises:
            ValueError: the weight's rows are not whole heads.
        """
        rows, rank = weight.shape
        per_head = qk_nope_head_dim + v_head_dim
        if rows % per_head:
            raise ValueError(
                f"kv_b weight has {rows} rows; expected a multiple of qk_nope_head_dim + "
                f"v_head_dim = {per_head}"
            )
        self.num_heads = rows // per_head
        by_head = weight.view(self.num_heads, per_head, rank)
        self.w_uk = by_head[:, :qk_nope_head_dim]
        self.w_uv = by_head[:, qk_nope_head_dim:]
        self._weight = weight

    def expand(self, latent: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """``(k_nope[T, H, nope], v[T, H, v])`` of ``latent[T, kv_lora_rank]``."""
        rows = torch.nn.functional.linear(latent, self._weight)
        heads = rows.view(latent.shape[0], self.num_heads, -1)
        nope = self.w_uk.shape[1]
        return heads[..., :nope], heads[..., nope:]

    def absorb(self, q_nope: torch.Tensor) -> torch.Tensor:
        """``[T, H, kv_lora_rank]``: times a latent row, what ``q_nope`` is times its key."""
        return torch.bmm(q_nope.transpose(0, 1), self.w_uk).transpose(0, 1)

    def values(self, out_latent: torch.Tensor) -> torch.Tensor:
        """``[T, H, v]`` of an absorbed output ``[T, H, kv_lora_rank]``."""
        return torch.bmm(out_latent.transpose(0, 1), self.w_uv.transpose(1, 2)).transpose(0, 1)
