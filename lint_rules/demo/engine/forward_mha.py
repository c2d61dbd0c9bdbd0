"""DeepSeek's prefill over a long cached prefix as MHA: at once, or a chunk at a time."""

from engine.forward_batch import ForwardBatch


class DeepseekMHAForward:
    def forward_one_shot(self, q, k, v, forward_batch: ForwardBatch):
        if hasattr(forward_batch.attn_backend, "init_mha_chunk_metadata"):
            forward_batch.attn_backend.init_mha_chunk_metadata(forward_batch)
        return self.attn_mha(q, k, v, forward_batch)

    def forward_chunked(self, q, k, v, forward_batch: ForwardBatch):
        if hasattr(forward_batch.attn_backend, "init_mha_chunk_metadata"):
            forward_batch.attn_backend.init_mha_chunk_metadata(forward_batch)
        for chunk in range(forward_batch.num_prefix_chunks):
            self.attn_mha(q, k, v, forward_batch.prefix_chunk(chunk))
        return self.attn_mha(q, k, v, forward_batch)
