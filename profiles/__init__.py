"""One JSON file per model: what it needs and how fast each device runs it, with sources."""
