"""Showing a session to people: in a terminal, as Markdown, as a page."""
