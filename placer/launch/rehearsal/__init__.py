"""A rehearsal: the plan of a manifest, executed on one machine whose links are shaped to those of
the plan.
"""
