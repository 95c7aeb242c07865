"""The pools as arrays, quotas, and weighted sums of machines."""
