"""Reads sessions on disk into a store: finds changes, archives log files and indexes text for search."""
