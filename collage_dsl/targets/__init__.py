"""Fusion specs in TVM Targets. Needs TVM."""
