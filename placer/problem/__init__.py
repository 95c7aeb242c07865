"""The validated question and the decision: wishes, placements, exchanges. Imports `workload` and
below.
"""
