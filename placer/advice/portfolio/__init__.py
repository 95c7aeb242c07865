"""Many jobs that share quotas, budgets and reservations: who runs where, and when."""
