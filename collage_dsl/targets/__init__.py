"""The fusion specs of TVM targets: put them in, take them out, find them. Needs TVM."""
