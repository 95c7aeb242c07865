"""Trees of the search: children, splits, hubs and first placements."""
