"""Dollars per hour, by component."""
