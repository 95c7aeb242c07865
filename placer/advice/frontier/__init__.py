"""The verb pareto: the frontier of cost against throughput."""
