"""An MCP server that lets agents look up earlier sessions: search them, read them, and list rejected actions.

It only reads. Responses are limited to one project, contain no secrets and stay within a token budget. All text from
logs is marked as quoted.
"""
