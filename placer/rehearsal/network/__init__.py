"""A wide-area network on one machine: each machine of a plan gets an address of its own, each link its rate and its delay."""

from placer.rehearsal.network.shape import Shape
from placer.rehearsal.network.shaped_network import METHODS, ShapedNetwork, shaped_network

__all__ = ["METHODS", "Shape", "ShapedNetwork", "shaped_network"]
