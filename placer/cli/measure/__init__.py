"""Commands that measure, calibrate and reproduce."""
