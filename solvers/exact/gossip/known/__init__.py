"""Placements whose regions are known: the machines of each, then all together."""
