"""The question: jobs, what they share, and columns of placements."""
