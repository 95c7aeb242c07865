"""Messages between ranks: point to point, compressed and counted."""
