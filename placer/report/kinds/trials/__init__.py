"""Figures that were tried out: rehearsals, simulations, replays, reproduced papers."""
