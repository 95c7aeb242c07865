"""What no placement can beat: relaxations, hubs, and the target that an answer must reach."""
