"""What planning a linear pass must have done, checked by the guard on its first call."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mla_runtime.linear.backend import LinearAttnBackend

__all__ = ["gives_every_request_a_state"]


def gives_every_request_a_state(self: LinearAttnBackend) -> bool:
    """Every row that is not padding has a state slot.

    A request that was given none would share slot 0, the sink, with the padding: its state would
    be lost after every pass, without an error.
    """
    metadata = self.forward_metadata
    if metadata is None:
        return True
    return bool(((metadata.state_indices > 0) | (metadata.verify_rows == 0)).all())
