"""Products of bytes, by instructions that sum the products of some neighbours at a time."""
