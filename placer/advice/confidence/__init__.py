"""Plans with fallbacks that hold in a share of the scenarios of capacity."""
