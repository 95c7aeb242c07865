"""From a manifest to running processes. Imports `solving` and below, never `advice`."""
