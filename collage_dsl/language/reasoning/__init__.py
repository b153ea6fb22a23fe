"""What patterns and rules can match: types of operators, facts, contradictions, and coverage."""
