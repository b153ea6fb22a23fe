"""Matrix products with weights that are packed when a model is loaded."""
