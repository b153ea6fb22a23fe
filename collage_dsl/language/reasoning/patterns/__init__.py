"""The form of patterns: their parts, sizes and calls, and what they match in a known graph."""
