"""The bound of one node with what pairs of regions cost each other."""
