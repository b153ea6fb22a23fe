"""The files in the folder of a compiled model."""

SIGNATURE = "signature.json"

LIBRARY = "model.so"
"""The file with the code, the only one that is run."""

PLAN = "plan.json"

REPORT = "report.json"
"""What `collage compile` answered."""
