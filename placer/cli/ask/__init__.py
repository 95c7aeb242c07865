"""Commands that answer a question."""
