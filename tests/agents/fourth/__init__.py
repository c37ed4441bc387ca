"""A made-up fourth agent, as the package of somebody else would have it. Nothing in unspool names it."""
