"""Price lists of any provider: which column is which, guessed from headers and cells."""
