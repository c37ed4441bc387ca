"""The databases a store can use."""
