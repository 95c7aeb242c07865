"""What can be rented, at what price, and how places are linked. Imports units and errors only."""
