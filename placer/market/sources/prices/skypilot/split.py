"""Split the price of a machine into the prices of its host and of its devices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

Edge = tuple[str, str]
"""A host and its devices."""
NANO = 1_000_000_000
"""Prices are split in whole 1e-9 USD, so that sums are exact."""
HOST_SHARE = 4
"""A host that stands on no price list of its own gets this part (a quarter) of what it could cost:
only the sum is known.
"""


def split_prices(
    machines: Mapping[Edge, Mapping[str, float]], hosts: Mapping[str, Mapping[str, float]]
) -> tuple[dict[str, dict[str, float]], set[Edge]]:
    """Find a price of each host and of each set of devices.

    Parameters
    ----------
    machines
        USD/h of each host with its devices, by market.
    hosts
        USD/h of hosts that are rented alone as well: these stay.

    Returns
    -------
    tuple
        USD/h by host or devices and by market; the machines that do not add up and have to be left
        out.

    Examples
    --------
    >>> machines = {("small", "T4:1"): {"spot": 0.57}, ("large", "T4:1"): {"spot": 0.79}}
    >>> prices, left_out = split_prices(machines, {"small": {"spot": 0.22}})
    >>> prices["T4:1"]["spot"], prices["large"]["spot"], left_out
    (0.35, 0.44, set())
    """
    left_out: set[Edge] = set()
    while True:
        sums: dict[str, dict[str, float]] = {}
        wrong: set[Edge] = set()
        kept = {edge: prices for edge, prices in machines.items() if edge not in left_out}
        for market in ("on_demand", "spot"):
            priced = {
                edge: round(prices[market] * NANO)
                for edge, prices in kept.items()
                if market in prices
            }
            fixed = {
                host: round(prices[market] * NANO)
                for host, prices in hosts.items()
                if market in prices
            }
            parts, bad = _split(priced, fixed)
            # A machine without a spot price must not get one from the spot prices of its parts.
            bad |= {
                edge
                for edge in kept
                if edge not in priced and edge[0] in {**fixed, **parts} and edge[1] in parts
            }
            wrong |= bad
            for name, nano in parts.items():
                sums.setdefault(name, {})[market] = nano / NANO
        if not wrong:
            return sums, left_out
        left_out |= wrong


def _split(
    prices: Mapping[Edge, int], fixed: Mapping[str, int]
) -> tuple[dict[str, int], set[Edge]]:
    """Return the prices of hosts and devices in one market; machines that contradict the others."""
    parts: dict[str, int] = {}
    wrong: set[Edge] = set()
    for edges in _groups(prices):
        shift = {edges[0][0]: 0}
        growing = True
        while growing:
            growing = False
            for host, devices in edges:
                if (host in shift) != (devices in shift):
                    known = host if host in shift else devices
                    shift[devices if known == host else host] = prices[host, devices] - shift[known]
                    growing = True
        bad = {edge for edge in edges if shift[edge[0]] + shift[edge[1]] != prices[edge]}
        hosts = {host for host, _ in edges}
        above = max(-shift[host] for host in hosts)
        below = min(shift[devices] for _, devices in edges)
        known_hosts = sorted(hosts & fixed.keys())
        base = (
            fixed[known_hosts[0]] - shift[known_hosts[0]]
            if known_hosts
            else above + (below - above) // HOST_SHARE
        )
        bad |= {
            edge for edge in edges if edge[0] in fixed and fixed[edge[0]] != shift[edge[0]] + base
        }
        wrong |= bad if bad or above < base < below else {edges[-1]}
        parts |= {host: shift[host] + base for host in hosts} | {
            devices: shift[devices] - base for _, devices in edges
        }
    return parts, wrong


def _groups(edges: Iterable[Edge]) -> list[list[Edge]]:
    """Return the machines that share hosts or devices, directly or through others."""
    groups: list[list[Edge]] = []
    for edge in edges:
        touching = [
            group
            for group in groups
            if any(edge[0] == host or edge[1] == devices for host, devices in group)
        ]
        groups = [group for group in groups if group not in touching]
        groups.append([e for group in touching for e in group] + [edge])
    return groups
