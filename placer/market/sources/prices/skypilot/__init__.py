"""Machines and prices from SkyPilot's catalogs, and a book's offers as such catalogs."""
