"""Placements under construction: what `greedy` and `local_search` share."""
