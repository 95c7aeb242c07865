"""Devices: their names, their peak speeds and which one this machine has."""
