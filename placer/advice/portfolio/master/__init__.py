"""The master program that chooses among columns, and the bounds that its prices prove."""
