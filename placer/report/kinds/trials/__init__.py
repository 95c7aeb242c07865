"""Figures that were tried out: rehearsals, runs, simulations, replays, reproduced papers."""
