"""What tokens cost: list prices as data, and the cost of counted tokens."""
