"""The types of calls, as far as rules need them: what TVM infers of their operands."""
