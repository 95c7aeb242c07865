"""Language models: one question for each number of workers with a plan, and its bounds."""
