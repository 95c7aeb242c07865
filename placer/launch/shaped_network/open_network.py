"""The choice of the method that carries a wide-area network on this machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from placer.errors import PlacerError
from placer.launch.shaped_network.network import ShapedNetwork
from placer.launch.shaped_network.packets.namespaces import namespaces
from placer.launch.shaped_network.shaping.shape import Shape, shapes_between
from placer.launch.shaped_network.streams.relays import relays

METHODS = ("namespaces", "relays")
"""Methods in order of preference."""


@contextmanager
def open_network(
    places: Sequence[str], shapes: Iterable[Shape], method: str = "auto"
) -> Iterator[ShapedNetwork]:
    """Make a network for the time of a ``with`` block.

    Parameters
    ----------
    places
        Place of each machine.
    shapes
        For each direction between places that have machines, and inside a place with two machines
        or more.
    method
        ``namespaces``: root, or user namespaces with a TUN device that users may open. ``relays``:
        nothing but Linux; who connects to another machine has to ask where. ``auto``: the best that
        works here.

    Raises
    ------
    PlacerError
        If a link is missing, or no method works here.

    Examples
    --------
    >>> from placer.launch.shaped_network import Shape
    >>> way = {"stream_bytes_per_s": 1e7, "pair_bytes_per_s": 4e7, "rtt_s": 0.1}
    >>> ways = [Shape(src="US", dst="EU", **way), Shape(src="EU", dst="US", **way)]
    >>> with open_network(["US", "EU"], ways) as network:  # doctest: +SKIP
    ...     network.addresses
    ('10.1.0.1', '10.2.0.1')
    """
    if method not in ("auto", *METHODS):
        raise PlacerError(f"method '{method}' is unknown", f"one of: auto, {', '.join(METHODS)}")
    checked = shapes_between(places, shapes)
    with ExitStack() as stack:
        network, why_not = None, ""
        if method != "relays":
            try:
                network = stack.enter_context(namespaces(places, checked))
            except PlacerError as error:
                if method != "auto":
                    raise
                why_not = f"links by relays: {error.message}"
        if network is None:
            network = stack.enter_context(relays(places, checked))
            network.why_not = why_not
        yield network
