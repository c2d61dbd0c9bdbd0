"""A tiny engine around the backends, for people who want to see them run."""
