"""The drivers: how each agent is started, and how its protocol maps to events, requests and answers."""
