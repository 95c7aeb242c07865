"""The version of placer: here, so that no module imports the top package for it."""

__version__ = "0.1.0"
