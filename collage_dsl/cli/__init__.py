"""The `collage` command: one module for each subcommand, and what they share."""
