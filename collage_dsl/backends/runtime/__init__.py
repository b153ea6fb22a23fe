"""The TVM runtime module that carries a kernel of a library inside an executable."""
