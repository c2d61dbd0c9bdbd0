"""Rotary position embedding of the rope parts of query and key."""

from __future__ import annotations

import torch

__all__ = ["cos_sin_cache_of", "rotate", "rotate_parts"]


def cos_sin_cache_of(
    rope_dim: int, max_position: int, base: float = 10000.0, device: torch.device | str = "cpu"
) -> torch.Tensor:
    """``[max_position, rope_dim]`` float32: cosines, then sines, of each position.

    Su et al., RoFormer, arXiv:2104.09864; the layout is that of FlashInfer and SGLang.
    """
    exponents = torch.arange(0, rope_dim, 2, dtype=torch.float32, device=device) / rope_dim
    angles = torch.outer(
        torch.arange(max_position, dtype=torch.float32, device=device), base**-exponents
    )
    return torch.cat([angles.cos(), angles.sin()], dim=-1)


def rotate(
    x: torch.Tensor, positions: torch.Tensor, cos_sin_cache: torch.Tensor, is_neox: bool
) -> torch.Tensor:
    """``x[T, heads, rope_dim]`` rotated by its token's position.

    ``is_neox`` pairs the halves of the last dimension; otherwise neighbours are paired, as in
    DeepSeek's checkpoints.
    """
    cos, sin = cos_sin_cache[positions.long()].to(torch.float32)[:, None].chunk(2, dim=-1)
    values = x.to(torch.promote_types(x.dtype, torch.float32))
    if is_neox:
        first, second = values.chunk(2, dim=-1)
        rotated = torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
    else:
        first, second = values[..., 0::2], values[..., 1::2]
        rotated = torch.stack(
            [first * cos - second * sin, second * cos + first * sin], dim=-1
        ).flatten(-2)
    return rotated.to(x.dtype)


def rotate_parts(
    q_rope: torch.Tensor | None,
    k_rope: torch.Tensor | None,
    positions: torch.Tensor | None,
    cos_sin_cache: torch.Tensor | None,
    is_neox: bool,
) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """Both rope parts rotated where the engine left that to the backend, else as they are.

    Raises:
        ValueError: a cache without rope parts or positions.
    """
    if cos_sin_cache is None:
        return q_rope, k_rope
    if q_rope is None or k_rope is None or positions is None:
        missing = [
            name
            for name, value in (("q_rope", q_rope), ("k_rope", k_rope), ("positions", positions))
            if value is None
        ]
        raise ValueError(
            f"cos_sin_cache is given, so the backend rotates; {missing} must not be None"
        )
    width = cos_sin_cache.shape[-1]
    tokens = positions.shape[0]
    return (
        rotate(q_rope.view(tokens, -1, width), positions, cos_sin_cache, is_neox),
        rotate(k_rope.view(tokens, -1, width), positions, cos_sin_cache, is_neox),
    )
