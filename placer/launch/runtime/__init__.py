"""The reference runtime: executes a launch manifest with real processes and measures what the plan
predicted.
"""
