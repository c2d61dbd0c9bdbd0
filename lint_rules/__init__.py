"""The linter: reads an engine's sources, never imports them, and judges its attention backends."""
