"""A second, plain implementation of the model: it reads a saved file alone and shares no code with
what found the answer.
"""
