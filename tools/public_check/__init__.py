"""Recounts sessions from their raw JSON, and compares the counts with unspool's."""
