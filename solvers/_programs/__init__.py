"""One linear program for `milp`, `highs` and `cpsat`."""
