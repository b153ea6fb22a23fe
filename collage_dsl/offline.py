"""
ONNX Runtime without its telemetry: this package imports it from here only.

    from collage_dsl.offline import onnxruntime

The Linux builds of ONNX Runtime write a number for this machine to the user's cache when they are
imported, and then send the names and hashes of models to Microsoft. Only a variable of the
environment that is set before the import prevents both.
"""

import os

os.environ["ORT_DISABLE_TELEMETRY"] = "1"

import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state

onnxruntime.disable_telemetry_events()  # for a program that imported it before

__all__ = ["onnxruntime", "onnxruntime_pybind11_state"]
