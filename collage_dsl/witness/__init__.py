"""Find a small graph that a pattern matches."""
