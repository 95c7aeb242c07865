"""One linear program for `milp` and `cpsat`."""
