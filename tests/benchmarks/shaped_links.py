"""Measure how near shaped links come to what is asked.

    make rehearse

Round trips and streams of links of the four continents, on a machine with nothing else to do. Best
of several; the worst row of the table is its claim. Exit code 1 if a link is faster than asked (by
more than its clock's grain), or slower by more than 5 % and 2 ms.
"""

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).parents[1]))

from shaped_peers import Peers

from placer.launch.shaped_network import Shape, open_network

WAYS = {
    "slow and near": (20e6, 0.005),
    "EU": (210e6, 0.103),
    "ASIA": (130e6, 0.150),
    "AUS": (80e6, 0.176),
    "fast and near": (1e9, 0.02),
}
"""Bit/s of a stream and round-trip time, from a machine in US and back. Continents: near Erben et
al. (2024).
"""
CAP = 2.5
"""The pair's rate over a stream's."""


def shapes() -> Iterable[Shape]:
    """Each way to and from US; the others are not used."""
    for src in ("US", *WAYS):
        for dst in ("US", *WAYS):
            if src != dst:
                bits, rtt = WAYS[src if dst == "US" else dst]
                yield Shape(
                    src=src,
                    dst=dst,
                    stream_bytes_per_s=bits / 8,
                    pair_bytes_per_s=CAP * bits / 8,
                    rtt_s=rtt,
                )


def rows(times: int) -> Iterable[tuple[str, float, float]]:
    """What, asked and measured seconds."""
    with open_network(("US", *WAYS), shapes()) as network:
        peers = Peers(network)
        for dst, (place, (bits, rtt)) in enumerate(WAYS.items(), 1):
            yield (
                f"{place}: round trip",
                rtt,
                min(peers.seconds(0, dst, 1) for _ in range(4 * times)),
            )
            for streams, carried in ((1, 1.0), (2, 2.0), (5, CAP)):
                size = int(carried * bits / 8)
                taken = min(peers.seconds(0, dst, size, streams) for _ in range(times))
                yield (
                    f"{place}: {size / 1e6:.3g} MB by {streams} at once",
                    size / (carried * bits / 8) + rtt,
                    taken,
                )
        peers.end()


def main() -> None:
    """Measure, print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--times",
        type=int,
        default=4,
        help="transfers of which the fastest counts; the first ones open TCP's window",
    )
    given = parser.parse_args()
    good = True
    click.echo("| link | asked, s | measured, s | difference |")
    click.echo("|---|---|---|---|")
    for what, asked, measured in rows(given.times):
        click.echo(f"| {what} | {asked:.4f} | {measured:.4f} | {measured / asked - 1:+.1%} |")
        good = good and asked - 1e-4 <= measured <= 1.05 * asked + 2e-3
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
