"""Seconds, dollars, grams: the one model that all use. Imports `problem` and below."""
