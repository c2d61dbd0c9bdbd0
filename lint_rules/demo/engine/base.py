"""What the engine asks of an attention backend."""

from abc import ABC, abstractmethod


class AttentionBackend(ABC):
    @abstractmethod
    def init_forward_metadata(self, forward_batch):
        """Plan the kernels for one batch."""

    @abstractmethod
    def forward_decode(self, q, k, v, layer, forward_batch, save_kv_cache=True):
        """Attention of one new token per request."""

    @abstractmethod
    def forward_extend(self, q, k, v, layer, forward_batch, save_kv_cache=True):
        """Attention of many new tokens per request."""

    def plan_for_graph(self, forward_batch):
        """Plan for a captured graph: what stands outside of it, then what is recorded."""
        self.plan_outside_graph(forward_batch)
        self.plan_in_graph(forward_batch)

    def plan_outside_graph(self, forward_batch):
        """Nothing by default."""

    def plan_in_graph(self, forward_batch):
        """Nothing by default."""

    def init_cuda_graph_state(self, max_bs):
        """Allocate what a captured graph reads."""
        raise NotImplementedError

    def commit_draft(self, accepted):
        """Keep of a verified draft what was accepted."""
        raise NotImplementedError

    def forward(self, q, k, v, layer, forward_batch, save_kv_cache=True):
        if forward_batch.forward_mode.is_decode():
            return self.forward_decode(q, k, v, layer, forward_batch, save_kv_cache)
        return self.forward_extend(q, k, v, layer, forward_batch, save_kv_cache)
