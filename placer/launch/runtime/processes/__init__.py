"""Processes of a run: how they start, report, fail and end."""
