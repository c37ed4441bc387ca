"""The cost of tokens: list prices as data, and the cost of counted tokens."""
