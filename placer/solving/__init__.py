"""Run a solver by name, check and price its answer. Imports `documents` and below."""
