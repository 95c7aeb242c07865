"""Charts: one module for each, from plain rows to a Vega-Lite chart."""
