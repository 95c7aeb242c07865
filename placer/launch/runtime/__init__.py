"""The reference runtime: executes a launch manifest and measures what the plan predicted."""
