"""Rows of capacity.csv from what providers publish, and from the user's own launches."""
