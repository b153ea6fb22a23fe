"""Reports on plans, compilations and matches: text for people, JSON for programs, pictures."""
