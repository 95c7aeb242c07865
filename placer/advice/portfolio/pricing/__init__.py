"""What one job costs under prices of what is shared: new columns and their bounds."""
