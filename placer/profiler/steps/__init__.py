"""How training steps are timed, and what is worked out from the times."""
