"""Operators and their attributes, where a pattern or a graph calls them."""
