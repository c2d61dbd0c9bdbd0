"""What a checkpoint says about its attention."""

from enum import Enum, auto


class AttentionArch(Enum):
    MLA = auto()
    MHA = auto()


class ModelConfig:
    def __init__(self, hf_config):
        self.context_len = hf_config.max_position_embeddings
        if hf_config.model_type == "deepseek_v3":
            self.attention_arch = AttentionArch.MLA
            self.kv_lora_rank = hf_config.kv_lora_rank
            self.scaling = hf_config.head_dim**-0.5 * hf_config.mscale**2
        elif hf_config.model_type == "bailing":
            self.attention_arch = AttentionArch.MLA
            self.kv_lora_rank = hf_config.kv_lora_rank
            self.scaling = hf_config.head_dim**-0.5
        elif hf_config.model_type == "kimi_vl":
            self.attention_arch = AttentionArch.MLA
            self.kv_lora_rank = hf_config.text_config.kv_lora_rank
        else:
            self.attention_arch = AttentionArch.MHA
