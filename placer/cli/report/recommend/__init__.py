"""A recommendation and its figures in words."""
