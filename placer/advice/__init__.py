"""What placer says about an answer: one folder a verb. Imports `solving` and below."""
