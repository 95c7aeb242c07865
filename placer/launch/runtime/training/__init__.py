"""One worker's training: model, batch, checkpoints, overlapped exchange."""
