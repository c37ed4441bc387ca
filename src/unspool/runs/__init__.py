"""Running agents: starting them, sending messages, answering their requests, and stopping them."""
