"""A wide-area network on one machine: each machine of a plan gets an address of its own, each link
its rate and its delay.
"""

from placer.launch.shaped_network.shaped_network import METHODS, ShapedNetwork, shaped_network
from placer.launch.shaped_network.shaping.shape import Shape

__all__ = ["METHODS", "Shape", "ShapedNetwork", "shaped_network"]
