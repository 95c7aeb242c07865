"""``placer profile runs``: constants of the model from measured runs."""
