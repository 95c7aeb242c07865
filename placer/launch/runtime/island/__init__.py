"""Islands: workers of several processes that share one copy of the model by an inner plan."""
