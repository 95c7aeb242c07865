"""What a model needs and how fast a device trains it, measured with PyTorch: what `placer profile`
writes.
"""
