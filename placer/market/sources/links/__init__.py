"""Sources of measured links, one module or package each."""
