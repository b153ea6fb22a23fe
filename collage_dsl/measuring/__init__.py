"""Measure the cost of one kernel: key, task, worker, timing, lower bound."""
