"""What is reported about patterns, rules and targets."""
