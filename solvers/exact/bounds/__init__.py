"""Bounds on the placements of a node: the relaxation, rounds between regions, and the ledger of
what is proved.
"""
