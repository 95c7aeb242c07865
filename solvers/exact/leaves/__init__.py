"""Leaves: the machines of known regions and numbers of workers, and whose turn it is."""
