"""Bandwidth, round-trip time and egress price of each pair of places."""
