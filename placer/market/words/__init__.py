"""Words about the market: parts of the world, other money, machines of one's own."""
