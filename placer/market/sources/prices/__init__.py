"""Sources of prices, one module or package each."""
