"""From a syntax tree to patterns, rules and targets: imports, names and checks."""
