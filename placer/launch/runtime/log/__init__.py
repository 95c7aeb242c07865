"""The run log, and its comparison with the plan."""
