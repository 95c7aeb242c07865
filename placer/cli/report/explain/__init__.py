"""An explanation in words."""
