"""Settings of every runtime test."""

from __future__ import annotations

import torch
from hypothesis import HealthCheck, settings

# Two threads on a busy machine turn sub-millisecond calls into 36 to 100 ms of waiting.
torch.set_num_threads(1)

settings.register_profile(
    "runtime", deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("runtime")
