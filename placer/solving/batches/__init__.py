"""The batch of a range: bounds of many batches at once, and the search over them."""
