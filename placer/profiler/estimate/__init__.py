"""Speed and memory of a model on devices that are not at hand."""
