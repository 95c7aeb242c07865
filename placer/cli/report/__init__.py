"""The short answer of ``placer recommend`` in words."""
