"""What a framework's gradient accumulation costs: measured in a child process, else published."""
