"""Many questions of one kind: solved here, in processes or on a Dask cluster."""
