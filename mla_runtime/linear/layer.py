"""One linear-attention layer as a backend sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import torch

__all__ = ["LinearAttentionLayer", "LinearLayerLike"]


class LinearLayerLike(Protocol):
    """What a backend reads of a layer, per SGLang 0.5.23, ``layers/radix_linear_attention.py``.

    ``slopes``, which is not SGLang's, is read by lightning attention alone.
    """

    @property
    def layer_id(self) -> int: ...
    @property
    def num_q_heads(self) -> int: ...
    @property
    def num_k_heads(self) -> int: ...
    @property
    def num_v_heads(self) -> int: ...
    @property
    def head_q_dim(self) -> int: ...
    @property
    def head_k_dim(self) -> int: ...
    @property
    def head_v_dim(self) -> int: ...
    @property
    def conv_weights(self) -> torch.Tensor | None: ...
    @property
    def bias(self) -> torch.Tensor | None: ...
    @property
    def activation(self) -> str: ...
    @property
    def A_log(self) -> torch.Tensor | None: ...
    @property
    def dt_bias(self) -> torch.Tensor | None: ...
    @property
    def slopes(self) -> torch.Tensor | None: ...


@dataclass(frozen=True, slots=True, eq=False)
class LinearAttentionLayer:
    """Sizes and the parameters that the attention itself reads; see ``LinearLayerLike``.

    ``conv_weights[q_dim + k_dim + v_dim, W]`` with the newest input last and ``bias`` of its
    channels, both absent in lightning attention; ``A_log[num_v_heads]``; ``dt_bias`` of
    ``num_v_heads`` (GDN) or ``num_v_heads * head_k_dim`` (KDA) elements; ``slopes[num_v_heads]``
    (lightning).
    """

    layer_id: int
    num_q_heads: int
    num_k_heads: int
    num_v_heads: int
    head_q_dim: int
    head_k_dim: int
    head_v_dim: int
    conv_weights: torch.Tensor | None = None
    bias: torch.Tensor | None = None
    activation: str = "silu"
    A_log: torch.Tensor | None = None
    dt_bias: torch.Tensor | None = None
    slopes: torch.Tensor | None = None

    def __post_init__(self) -> None:
        """Check the sizes.

        Raises:
            ValueError: queries and keys differ in heads or head size, value heads do not divide
                among the key heads, another activation than SiLU, or a parameter of another size.
        """
        if (self.num_q_heads, self.head_q_dim) != (self.num_k_heads, self.head_k_dim):
            raise self._wrong(
                f"{self.num_q_heads} query heads of {self.head_q_dim} and {self.num_k_heads} key "
                f"heads of {self.head_k_dim}",
                "equal ones",
            )
        if self.num_v_heads % self.num_k_heads:
            raise self._wrong(
                f"{self.num_v_heads} value heads over {self.num_k_heads} key heads", "a multiple"
            )
        if self.activation != "silu":
            raise self._wrong(f"activation={self.activation!r}", "'silu'")
        per_head = (self.num_v_heads,)
        self._check("A_log", self.A_log, per_head)
        self._check("slopes", self.slopes, per_head)
        self._check("dt_bias", self.dt_bias, (self.num_v_heads, self.num_v_heads * self.head_k_dim))
        self._check("bias", self.bias, (self.conv_dim,))
        weights = self.conv_weights
        if weights is not None and (weights.dim() != 2 or weights.shape[0] != self.conv_dim):
            raise self._wrong(
                f"conv_weights {tuple(weights.shape)}", f"({self.conv_dim}, convolution width)"
            )

    @property
    def conv_dim(self) -> int:
        """Channels of the convolution: every query, key and value head."""
        return (
            self.num_q_heads * self.head_q_dim
            + self.num_k_heads * self.head_k_dim
            + self.num_v_heads * self.head_v_dim
        )

    def _check(self, name: str, parameter: torch.Tensor | None, sizes: tuple[int, ...]) -> None:
        if parameter is not None and parameter.numel() not in sizes:
            expected = " or ".join(map(str, sizes))
            raise self._wrong(f"{name} of {parameter.numel()} elements", expected)

    def _wrong(self, got: str, expected: str) -> ValueError:
        return ValueError(f"linear-attention layer {self.layer_id} has {got}; expected {expected}")
