"""Documents with many placements: frontiers and portfolios."""
