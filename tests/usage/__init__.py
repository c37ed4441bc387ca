"""Tests of prices and cost, and that no token is counted twice."""
