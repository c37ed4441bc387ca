"""Tools for those who work on unspool; none of them is part of the package."""
