"""A rehearsal: the plan of a manifest, executed on one machine with links shaped as in the plan."""
