"""Files that placer writes and reads: saved results, certificates, manifests, schemas. Imports
`cost_model` and below.
"""
