"""Commands that answer a question, one file each."""
