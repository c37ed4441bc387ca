"""One module per agent: its protocol, and nothing else."""
