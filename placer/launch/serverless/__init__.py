"""Serverless aggregation: the protocol of workers and functions, and the functions of a plan."""
