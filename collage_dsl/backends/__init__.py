"""What can run a sub-graph. Each backend is imported where it is asked for; this imports none."""
