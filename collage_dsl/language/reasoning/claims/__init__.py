"""What a call of an operator says of the values that it takes and gives."""
