"""Random damaged input for each reader: models, tables, stores, saved folders, editor requests."""
