"""``placer network probe``: measure links to hosts of the user, after saying what it may cost."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from placer.cli.book.network.import_ import finish
from placer.cli.book.network.serve_probe import given_token
from placer.cli.options import Range, catalog_option, json_option
from placer.cli.output import console, new_table
from placer.errors import PlacerError

if TYPE_CHECKING:
    from placer.market.sources.links.probe.probe import HostReport, ProbePlan

MOST_STREAMS = 64


@click.command(
    "probe", epilog="Example: placer network probe --hosts hosts.toml --seconds 5 --max-cost 2"
)
@click.option(
    "--hosts",
    "path",
    required=True,
    metavar="FILE",
    help="TOML: here = PLACE, and [[host]] with name, place, address.",
)
@click.option(
    "--streams",
    default="1,4,16",
    show_default=True,
    metavar="N,..",
    help="Numbers of TCP streams side by side.",
)
@click.option(
    "--seconds",
    default=5.0,
    show_default=True,
    type=Range(0.05, 60),
    metavar="N",
    help="Length of one run.",
)
@click.option(
    "--max-bytes", default="10GB", show_default=True, metavar="SIZE", help="Most bytes of one run."
)
@click.option(
    "--max-cost", type=Range(min=0), metavar="USD", help="Refuse a probe that can cost more."
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option(
    "--token", metavar="TEXT", help="Shared secret of the servers; default: $PLACER_PROBE_TOKEN."
)
@click.option(
    "--with",
    "tool",
    type=click.Choice(["sockets", "iperf3"]),
    default="sockets",
    show_default=True,
    help="Tool that measures.",
)
@click.option(
    "--as", "name", default="probe", show_default=True, metavar="NAME", help="Name of the book."
)
@catalog_option
@click.option("--dry-run", is_flag=True, help="Print the bill; connect nowhere.")
@json_option
def command(
    path: str,
    streams: str,
    seconds: float,
    max_bytes: str,
    max_cost: float | None,
    yes: bool,
    token: str | None,
    tool: str,
    name: str,
    catalog: tuple[str, ...],
    dry_run: bool,
    as_json: bool,
) -> None:
    """Measure throughput and round-trip time between this machine and others, both ways.

    'placer network serve-probe' must run on the others.
    """
    from placer.market.books.book_reader import load_catalog
    from placer.market.books.folders import check_book_name
    from placer.market.books.layers import catalog_names
    from placer.market.network.graph import network_of
    from placer.market.sources.links.probe.bill import check_cost
    from placer.market.sources.links.probe.hosts import read_hosts
    from placer.market.sources.links.probe.iperf3 import find_iperf3
    from placer.market.sources.links.probe.probe import harvest_probe, plan_probe, run_probe
    from placer.units import parse_bytes

    _check_finite(("--seconds", seconds), ("--max-cost", max_cost))
    check_book_name(name, catalog_names())
    book = load_catalog(catalog)
    hosts, counts, limit = (
        read_hosts(path, book.regions),
        parse_streams(streams),
        parse_bytes(max_bytes),
    )
    network = network_of(book)
    plan = plan_probe(network, hosts, counts, seconds, limit)
    if max_cost is not None:
        check_cost(lambda s: plan_probe(network, hosts, counts, s, limit).usd, seconds, max_cost)
    _print_bill(plan, as_json=as_json and not dry_run, document=as_json and dry_run)
    if dry_run:
        return
    secret = given_token(token)[0] if tool == "sockets" else ""
    program = find_iperf3() if tool == "iperf3" else None
    _consent(yes or max_cost is not None)
    reports, interrupted = _measured(run_probe(plan, book.regions, secret, program))
    if not any(report.readings for report in reports):
        if interrupted:
            raise click.Abort
        raise _nothing(reports, name)
    if interrupted:
        click.echo(f"interrupted: partial, {len(reports)} of {len(plan.hosts)} hosts", err=True)
    finish(
        harvest_probe(reports, plan, book.regions), name, catalog, dry_run=False, as_json=as_json
    )
    if interrupted:
        raise click.Abort


def _check_finite(*options: tuple[str, float | None]) -> None:
    for option, number in options:
        if number is not None and not math.isfinite(number):
            raise PlacerError(f"{option} '{number}' is not finite", "give a finite number")


def _measured(running: Iterator[HostReport]) -> tuple[list[HostReport], bool]:
    """Collect the reports of all hosts, or of those before Ctrl-C, and say each one as it comes."""
    reports: list[HostReport] = []
    try:
        for report in running:
            reports.append(report)
            _print_report(report)
    except KeyboardInterrupt:
        return reports, True
    return reports, False


def parse_streams(text: str) -> list[int]:
    """Read numbers of streams such as ``1,4,16``."""
    words = [word.strip() for word in text.split(",")]
    if not all(
        re.fullmatch(r"[0-9]{1,3}", word) and 1 <= int(word) <= MOST_STREAMS for word in words
    ):
        raise PlacerError(
            f"streams '{text}' are not numbers from 1 to {MOST_STREAMS}", "write them as 1,4,16"
        )
    return sorted({int(word) for word in words})


def _consent(given: bool) -> None:
    """Ask on a terminal; elsewhere a flag must say yes."""
    if given:
        return
    if not sys.stdin.isatty():
        raise PlacerError(
            "a probe costs money and nobody can be asked here",
            "add --yes, or --max-cost with the most it may cost",
        )
    if not click.confirm("measure?", err=True):
        raise click.Abort


def _nothing(reports: list[HostReport], name: str) -> PlacerError:
    from placer.market.sources.reading.fetch import FAILED

    first = reports[0]
    words = f"no host could be measured; {first.host.name}: {first.fault}"
    return PlacerError(
        words,
        f"run 'placer network serve-probe' (or iperf3 -s) there; an old book '{name}' stays as "
        f"it was",
        exit_code=FAILED,
    )


def _print_report(report: HostReport) -> None:
    """Say on stderr how one host went, as soon as it is done."""
    from placer.units import format_bandwidth, format_bytes

    out = console(stderr=True)
    if report.fault:
        out.print(f"{report.host.name}: failed: {report.fault}")
        return
    times = (
        ""
        if report.connect_ms is None
        else f"connect {report.connect_ms:.3g} ms, echo {report.echo_ms:.3g} ms"
    )
    out.print(f"{report.host.name}: {times}")
    for verb, run in report.runs:
        words = (
            f"{format_bandwidth(run.bits_per_s / 8)}, {format_bytes(run.received_bytes)} arrived"
        )
        out.print(f"  {verb} {run.streams} stream{'s' if run.streams > 1 else ''}: {words}")


def _print_bill(plan: ProbePlan, *, as_json: bool, document: bool) -> None:
    """Print the most that the probe can cost: on stderr, or as JSON in a dry run with --json."""
    from placer.cli.output import print_json
    from placer.units import format_bytes, format_usd

    if document:
        fields = ("host", "src", "dst", "most_bytes", "usd_per_gib", "usd")
        lines: list[dict[str, Any]] = [{f: getattr(line, f) for f in fields} for line in plan.lines]
        print_json({"schema": "placer.probe-bill/v1", "most_usd": plan.usd, "lines": lines})
        return
    table = new_table(
        ("host", "from", "to", "at most", "USD/GiB", "USD"), right=("at most", "USD/GiB", "USD")
    )
    for line in plan.lines:
        table.add_row(
            line.host,
            line.src,
            line.dst,
            format_bytes(line.most_bytes),
            f"{line.usd_per_gib:.3f}",
            format_usd(line.usd),
        )
    out = console(stderr=as_json)
    out.print(table)
    out.print(f"egress costs at most {format_usd(plan.usd)}; machines cost extra")
