"""Products with few rows, whose time is that of reading the weights once."""
