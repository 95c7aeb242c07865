"""Object stores of a run."""
