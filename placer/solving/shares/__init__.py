"""The best placement under shares of the speed."""
