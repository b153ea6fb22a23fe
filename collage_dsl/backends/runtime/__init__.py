"""The module class that carries a library's kernel inside a TVM executable."""
