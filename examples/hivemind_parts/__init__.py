"""Parts of `examples/hivemind_roberta_tiny.py` that plan, start and watch."""
