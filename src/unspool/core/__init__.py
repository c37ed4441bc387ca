"""The session record and how it is put together: pure, with no files and no names of agents."""
