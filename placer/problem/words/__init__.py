"""From the user's words to a Problem, one subject a file."""
