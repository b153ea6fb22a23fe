"""Make an executable from chosen kernels: outline, place, rewrite, lower, run, verify."""
