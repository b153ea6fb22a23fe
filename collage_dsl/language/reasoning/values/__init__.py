"""What is known of the values in a pattern: sets of numbers, comparisons, facts."""
