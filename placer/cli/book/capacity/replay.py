"""``placer capacity replay``: policies over a trace, and what each pays to finish in time."""

from __future__ import annotations

from typing import Any

import click

from placer.cli.options import Range, catalog_option, json_option, output_option, runner_options
from placer.cli.output import check_targets, write_json
from placer.cli.screen.option_groups import GroupedCommand
from placer.cli.screen.show import show

EPILOG = """\b
Examples:
  placer capacity replay trace.csv --machines 16 --work 24h --slack 25% --gpu H100
  placer capacity replay trace.csv --machines 16 --work 24h --deadline 30h --prices prices.csv
  placer capacity replay trace.csv --machines 8 --work 2d --slack 10% --gpu V100 --policy span

\b
TRACE is a log of launches as in 'placer capacity forecast': a column utc and one for each zone.
Every policy begins at many times of the trace and ends with on-demand machines where the slack
would not cover one more restart: none misses a deadline. It is assumed that
on-demand machines are always available.
"""


def price_options(function: Any) -> Any:
    """Add the options that say what machines and bytes cost, instead of a catalog."""
    for option in reversed((
        click.option(
            "--prices",
            metavar="FILE",
            help="CSV of spot prices in place of the catalog's: a row for each zone, or a trace.",
        ),
        click.option(
            "--on-demand",
            "on_demand",
            type=Range(0),
            metavar="USD",
            help="Price of one on-demand machine-hour; default: as in the file or the catalog.",
        ),
        click.option(
            "--egress",
            type=Range(0),
            metavar="USD",
            help="Price per GiB between two regions; default: the catalog's own prices.",
        ),
    )):  # fmt: skip
        function = option(function)
    return function


def job_options(function: Any) -> Any:
    """Add the options that say what a job loses when its machines change."""
    for option in reversed((
        click.option(
            "--restart",
            default="12min",
            show_default=True,
            metavar="TIME",
            help="Paid start-up time of a machine before it works.",
        ),
        click.option(
            "--reform",
            default="3min",
            show_default=True,
            metavar="TIME",
            help="Time that an island stops when its number of machines changes.",
        ),
        click.option(
            "--efficiency",
            default="95%",
            show_default=True,
            metavar="SHARE",
            help="Speed of a job in several places relative to one place.",
        ),
        click.option(
            "--checkpoint",
            default="50GiB",
            show_default=True,
            metavar="SIZE",
            help="Size of a checkpoint, sent to each new place.",
        ),
        click.option(
            "--exchange",
            default="16GiB",
            show_default=True,
            metavar="SIZE",
            help="Traffic per hour to and from each place but one, while a job runs in several.",
        ),
    )):  # fmt: skip
        function = option(function)
    return function


@click.command("replay", cls=GroupedCommand, epilog=EPILOG)
@click.argument("trace", metavar="TRACE")
@click.option("--machines", type=click.IntRange(1), required=True, help="Machines of the job.")
@click.option(
    "--work", required=True, metavar="TIME", help="Time that the job takes on all its machines."
)
@click.option("--deadline", metavar="TIME", help="Time from the start to the deadline.")
@click.option("--slack", metavar="SHARE", help="The deadline as extra time beyond the work: 25%.")
@click.option("--gpu", metavar="GPU[:COUNT]", help="Device of each machine; prices of the catalog.")
@price_options
@catalog_option
@job_options
@click.option(
    "--policy",
    multiple=True,
    metavar="NAME",
    help="on-demand, fixed, migrate, migrate-pace, migrate-censored or span; default: all.",
)
@click.option(
    "--every", default="2h", show_default=True, metavar="TIME", help="Time between starts."
)
@click.option("--tick", metavar="TIME", help="Time between decisions; default: as in the trace.")
@click.option(
    "--asked",
    type=click.IntRange(1),
    help="Machines asked for each time; default: the most that were launched.",
)
@runner_options
@output_option("the document")
@json_option
def command(trace: str, output: str | None, as_json: bool, **words: Any) -> None:
    """Run policies over a TRACE of capacity: what each pays to finish by the deadline."""
    from placer.interface.replay import replay

    check_targets(output)
    document = replay(trace, **words).to_dict()
    if output is not None:
        write_json(output, document)
        click.echo(f"wrote the replay to {output}", err=True)
    show(document, as_json=as_json)
