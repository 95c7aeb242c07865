"""``placer calibrate``: constants of the model from measured runs."""
