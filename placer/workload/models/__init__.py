"""Models by a word: shipped profiles, configurations, parameter counts, adapters."""
