"""Renders sessions for people: in a terminal, as Markdown, or as HTML."""
