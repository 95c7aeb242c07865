"""A wide-area network on one machine: machines with networks, links with rates and delays."""

from placer.launch.shaped_network.network import ENVIRONMENT, Shape, ShapedNetwork, open_network

__all__ = ["ENVIRONMENT", "Shape", "ShapedNetwork", "open_network"]
