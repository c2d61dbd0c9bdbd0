"""Linear attention: a recurrent state per request instead of a cache per token."""
