"""Read documents of others: bounded in time and size, with clear errors."""
