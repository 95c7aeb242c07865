"""Spot capacity: how many machines a zone will launch, zones together, and how long they stay."""
