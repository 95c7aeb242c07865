"""Texts that export targets share: shell, YAML, environment, README and heading."""
