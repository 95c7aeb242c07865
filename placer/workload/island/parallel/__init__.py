"""Ways in which devices divide a model beside its states: stages, experts, sequences."""
