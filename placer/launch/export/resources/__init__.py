"""Parts of a target's files: Kubernetes pods, and the program by which machines meet."""
