"""A placement replayed event by event, with jitter and stragglers: a check on the closed forms of
placer.cost_model.timing.round_seconds.
"""
