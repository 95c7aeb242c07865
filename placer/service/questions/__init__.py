"""What may be asked, and how a request is read."""
