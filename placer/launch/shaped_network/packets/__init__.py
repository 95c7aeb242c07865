"""A network namespace for each machine, whose packets a relay carries."""
