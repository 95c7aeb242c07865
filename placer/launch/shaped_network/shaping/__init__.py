"""The shape of links: rates, delays and queues."""
