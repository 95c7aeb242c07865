"""Processes that solve, and the queue in front of them."""
