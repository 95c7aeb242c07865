"""The verb robust: the regret of a recommendation over drawn worlds."""
