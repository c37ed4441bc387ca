"""Makes recordings of the installed agents, and reports changes of their formats. See docs/recording.md."""
