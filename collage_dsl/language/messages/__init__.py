"""What is wrong in a file: codes, findings with hints, and the page of each code."""
