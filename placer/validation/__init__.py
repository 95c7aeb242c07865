"""How far the figures are right: calibration on runs, simulation, published papers. Imports
`solving` and below.
"""
