"""What stands beside an answer: at the figures of the book, with a copy of the data, with machines
of one's own.
"""
