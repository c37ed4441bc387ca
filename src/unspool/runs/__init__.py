"""Running agents: starting them, talking to them, answering what they ask, and ending them."""
