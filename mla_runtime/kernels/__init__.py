"""The kernels under the backends: a protocol, a torch reference, adapters to kernel libraries."""
