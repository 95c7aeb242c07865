"""Export targets, one file each."""
