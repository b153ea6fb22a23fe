"""From text to a syntax tree: grammar, parser, and hints about what cannot be parsed."""
