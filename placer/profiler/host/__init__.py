"""What averaging gradients costs the processor of this machine."""
