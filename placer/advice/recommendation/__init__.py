"""The verb recommend: the answer with baselines, near misses and notes."""
