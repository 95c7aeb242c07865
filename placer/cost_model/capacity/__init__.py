"""Spot capacity: how many machines zones will launch, alone and together."""
