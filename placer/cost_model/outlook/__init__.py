"""What a whole run or month has to expect: interruptions, totals, volume."""
