"""What several views say alike."""
