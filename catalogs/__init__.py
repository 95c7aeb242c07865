"""Dated price books and measured links: CSV, a source for every row; columns.csv describes them."""
