"""Workers that a question may have: machines of offers, their plans, speeds, quotas and data."""
