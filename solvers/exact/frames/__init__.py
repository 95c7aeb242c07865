"""Frames: places that are all near each other, and the whole machines that may be chosen there."""
