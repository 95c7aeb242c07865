"""The web page of the service."""
