"""What can be rented and trained: offers, books, links, models, capacity."""
