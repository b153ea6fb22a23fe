"""
Read models: ONNX and Relax to a `Graph`, and a `Graph` back to Relax.

Import from the modules; this package imports neither TVM nor ONNX by itself.
"""
