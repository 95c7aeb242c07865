"""Commands on price books, links and models."""
