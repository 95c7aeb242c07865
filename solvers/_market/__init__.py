"""The market as arrays: pools, quotas, and weighted sums of machines."""
