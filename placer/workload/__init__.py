"""What one model needs, how fast devices run it, and the constants of a host. Imports `market` and
below.
"""
