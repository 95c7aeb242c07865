"""Nodes of the search: children, leaves, fronts and first placements."""
