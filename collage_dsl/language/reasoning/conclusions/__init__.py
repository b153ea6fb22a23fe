"""What follows from the conditions and calls of a pattern together."""
