"""The verb sweep: one solve for each point of some ranges."""
