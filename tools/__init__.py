"""Tools for working on unspool, which are not part of the package."""
