"""The text notation of small graphs: its names, operators and types."""
