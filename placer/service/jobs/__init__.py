"""Long questions: kept in a file, run beside the others, followed and cancelled."""
