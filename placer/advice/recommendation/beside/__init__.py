"""What stands beside an answer: the book's figures, a copy of the data, machines of one's own."""
