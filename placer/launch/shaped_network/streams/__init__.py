"""A loopback address for each machine, whose connections a relay carries."""
