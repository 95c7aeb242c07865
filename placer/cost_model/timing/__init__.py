"""Seconds of one exchange, one file for each way in which bytes travel."""
