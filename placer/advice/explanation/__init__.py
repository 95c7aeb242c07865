"""The verb explain: what binds, why not, break-even prices, conflicts."""
