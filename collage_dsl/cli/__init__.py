"""The `collage` command."""
