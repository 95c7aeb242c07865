"""A wide-area network on one machine: each machine of a plan has a network of its own, each link
its rate and its delay.
"""

from placer.launch.shaped_network.network import ENVIRONMENT, Shape, ShapedNetwork, open_network

__all__ = ["ENVIRONMENT", "Shape", "ShapedNetwork", "open_network"]
