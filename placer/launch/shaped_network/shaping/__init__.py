"""What a link is shaped to: rates, delays, queues."""
