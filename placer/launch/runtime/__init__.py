"""The reference runtime: it executes a launch manifest with real processes and measures what the
plan predicted.
"""
