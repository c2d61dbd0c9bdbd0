"""Formats for programs, one a file: what a CI system reads instead of a person."""
