"""Backends: what can run a sub-graph. Each is imported when it is needed; this imports none."""
