"""Reports: pages and drawings made from the JSON documents of results."""
