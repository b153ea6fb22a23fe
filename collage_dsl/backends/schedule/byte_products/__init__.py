"""Products of bytes, by instructions that sum the products of four pairs at a time."""
