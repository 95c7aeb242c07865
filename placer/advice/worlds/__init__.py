"""The verbs whatif and replan: the question in a changed world."""
