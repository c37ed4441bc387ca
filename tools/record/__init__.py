"""New recordings of the installed agents, and what they say of the agents' formats. See docs/recording.md."""
