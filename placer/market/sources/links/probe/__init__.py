"""Measure links from this machine to hosts of the user."""
