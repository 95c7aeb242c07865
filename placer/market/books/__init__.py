"""Price books: CSV files, their layers, cache, pins and contracts."""
