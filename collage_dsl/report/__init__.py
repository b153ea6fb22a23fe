"""What a plan and a compilation look like to people and to programs."""
