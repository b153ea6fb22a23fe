"""From patterns, rules, targets and graphs to text."""
