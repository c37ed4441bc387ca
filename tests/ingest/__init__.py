"""Tests of the way into the store."""
