"""A wide-area network on one machine: each machine of a plan has an address of its own, each link
its rate and its delay.
"""

from placer.launch.shaped_network.network import ShapedNetwork
from placer.launch.shaped_network.open_network import METHODS, open_network
from placer.launch.shaped_network.shaping.shape import Shape

__all__ = ["METHODS", "Shape", "ShapedNetwork", "open_network"]
