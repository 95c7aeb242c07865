"""Bounds and machines around a hub: a function and store, or a server."""
