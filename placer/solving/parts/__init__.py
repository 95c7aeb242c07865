"""Questions that are divided into parts: by the number of workers, or by the kind of machine."""
