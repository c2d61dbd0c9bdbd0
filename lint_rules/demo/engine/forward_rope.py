"""Decode with the rotary embedding inside of the kernel."""

from engine.forward_batch import ForwardBatch


class FusedRopeForward:
    def forward_fused(self, q, k, forward_batch: ForwardBatch):
        splits = forward_batch.attn_backend.num_kv_splits
        return self.kernel(q, k, forward_batch.seq_lens, splits)
