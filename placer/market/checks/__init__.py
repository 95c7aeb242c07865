"""Checks of a price book: errors, doubtful rows, coverage, sources, and changes between two books."""
