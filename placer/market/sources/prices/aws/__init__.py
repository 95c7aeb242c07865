"""Prices of AWS, read with the user's own credentials."""
