"""Blocks as terminal text, rows of data, Markdown and HTML."""
