"""The session record and the code that builds it: without file access, and without names of agents."""
