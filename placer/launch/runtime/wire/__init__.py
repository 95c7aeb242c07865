"""Messages between ranks: codec, counting, butterfly."""
