"""Datasets: where they lie, which workers read them, and what must not leave."""
