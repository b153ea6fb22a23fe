"""From one kernel to its cost: key, task, worker, timing, lower bound."""
