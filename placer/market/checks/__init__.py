"""Checks of a price book: errors, doubtful rows, coverage, sources, differences."""
