"""From chosen kernels to Relax and machine code: build, measure, verify. Needs TVM."""
