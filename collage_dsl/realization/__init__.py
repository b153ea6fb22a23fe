"""From a plan to an executable: outline, place, rewrite, lower, run, verify."""
