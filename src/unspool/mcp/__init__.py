"""An MCP server with which agents look up earlier sessions: search, read, and ask what was refused.

It only reads. Its answers are limited to one project, have no secrets, and fit a budget of tokens; everything that
comes from a log is marked as a quotation.
"""
