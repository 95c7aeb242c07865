"""A frontier as table, text plot and picture."""
