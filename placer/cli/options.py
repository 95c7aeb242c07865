"""Options that several commands share: the words of a request."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

import click

from placer.problem.exchange import STRATEGIES

F = TypeVar("F", bound=Callable[..., Any])
Option = Callable[[Callable[..., Any]], Callable[..., Any]]

catalog_option = click.option(
    "--catalog",
    multiple=True,
    metavar="NAME|DIR|CSV",
    help="Price book; of several, later ones lie over earlier ones. Default: the pinned ones.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


class Range(click.FloatRange):
    """A number between two others; ``nan``, which is below none, is refused."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read it; a usage error where it is no such number."""
        found = float(super().convert(value, param, ctx))
        if math.isnan(found):
            self.fail(f"{value!r} is no number.", param, ctx)
        return found


NAMES = [name for name in STRATEGIES if name != "none"]
_REQUEST: list[Option] = [
    click.option(
        "--model",
        required=True,
        metavar="NAME|FILE",
        help="Model profile: a name of 'placer models' or a JSON file.",
    ),
    catalog_option,
    click.option(
        "--tbs",
        metavar="N|N..M",
        help="Target batch size: samples per step over all workers (32768, 32K, 32Ki), or a range.",
    ),
    click.option(
        "--critical-batch",
        metavar="N",
        help="Gradient noise scale: samples to target grow with 1 + TBS / N.",
    ),
    click.option(
        "--samples",
        metavar="N",
        help="Samples to train on, at equal progress, such as 10M: adds time and money in total.",
    ),
    click.option(
        "--exchange",
        default="auto",
        show_default=True,
        metavar="NAME",
        help=f"auto (any synchronous one), {', '.join(NAMES)}.",
    ),
    click.option(
        "--local-steps",
        metavar="N..M",
        help="Optimizer steps between exchanges; above 1 auto adds local-sgd and its kin.",
    ),
    click.option(
        "--streams",
        default="1",
        show_default=True,
        metavar="N",
        help="TCP streams of each pair of machines.",
    ),
    click.option(
        "--overlap",
        is_flag=True,
        help="Run the exchange beside the next step: one step of staleness.",
    ),
    click.option(
        "--samples-to-target",
        multiple=True,
        metavar="NAME=X",
        help="Samples an exchange needs over synchronous ones, as in local-sgd=1.2.",
    ),
    click.option(
        "--aggregator",
        metavar="PLACE",
        help="Place of the cloud function, parameter server or hub; NAME@PLACE where it has "
        "several.",
    ),
    click.option(
        "--storage", metavar="PLACE", help="Place of the object store of a serverless exchange."
    ),
    click.option(
        "--compression", metavar="NAME", help="none, fp16 or int8; default: the profile's."
    ),
    click.option(
        "--data",
        multiple=True,
        metavar="STORE|PLACE=N:stay",
        help="Store of the dataset, such as backblaze/us-west, or samples with a place: "
        "A=2M:stay,B=1M:move; default: with the workers.",
    ),
    click.option(
        "--passes",
        default="1",
        show_default=True,
        metavar="N",
        help="Epochs over which the price of a move is spread.",
    ),
    click.option(
        "--keep",
        multiple=True,
        metavar="KIND=AREA",
        help="raw-data, gradients or checkpoints must not leave an area: gradients=europe.",
    ),
    click.option(
        "--interruption",
        metavar="SHARE",
        help="Chance per month that a spot machine is taken away; default: the provider's band, "
        "else 20 % (assumed).",
    ),
    click.option(
        "--unavailable",
        metavar="SHARE",
        help="Share of the time a zone has no spot capacity; default 10 % (assumed).",
    ),
    click.option(
        "--link",
        "links",
        multiple=True,
        metavar="A:B=RATE",
        help="Measured bandwidth of one stream, as in gcp/us-west1:aws/us-west-2=250Mb/s.",
    ),
    click.option(
        "--calibration",
        metavar="FILE",
        help="Figures of your own runs, made by 'placer calibrate'.",
    ),
    click.option(
        "--zones",
        default="one",
        show_default=True,
        metavar="one|spread",
        help="Whether workers of a region share a zone.",
    ),
]
_WISHES: list[Option] = [
    click.option(
        "--budget",
        metavar="USD[/h]",
        help="Most that may be spent: 5/h; with --samples also in total: 200usd.",
    ),
    click.option(
        "--min-throughput", metavar="N/s", help="Least samples per second, such as 400/s."
    ),
    click.option("--deadline", metavar="TIME", help="Time for all --samples, such as 12h."),
    click.option(
        "--max-carbon",
        metavar="g/h",
        help="Most emissions of the machines in CO2e, such as 500g/h or 12kg/day.",
    ),
    click.option(
        "--objective",
        metavar="NAME",
        help="throughput, cost, cost-per-sample, time or carbon; default: throughput, or cost "
        "with a floor or deadline alone.",
    ),
    click.option("--gpu", metavar="A,B", help="Only these GPUs, such as T4,A10,A100."),
    click.option(
        "--in",
        "places",
        metavar="PLACE,..",
        help="Only these places: 'aws/*', 'gcp/europe-*', aws, europe, EU.",
    ),
    click.option("--not-in", "not_places", metavar="PLACE,..", help="Not these places."),
    click.option(
        "--use",
        multiple=True,
        metavar="PLACE[=NxDEVICE]",
        help="Machines you own or already run: at least N are among the workers, as in "
        "onprem/site=1xRTX8000 or 'gcp/*=2xT4:spot'.",
    ),
    click.option(
        "--market", default="any", show_default=True, metavar="NAME", help="spot, on-demand or any."
    ),
    click.option(
        "--workers",
        default="1..64",
        show_default=True,
        metavar="N..M",
        help="Fewest and most workers.",
    ),
    click.option(
        "--regions",
        metavar="N..M",
        help="Fewest and most regions with workers, such as 2 or 1..3; default: any.",
    ),
    click.option(
        "--quota",
        metavar="FILE",
        help="CSV with place,gpu,market,gpus[,scope]; default 8 GPUs per region, type and market.",
    ),
    click.option(
        "--require-measured",
        is_flag=True,
        help="Leave out GPUs that nobody measured this model on.",
    ),
    click.option(
        "--max-price-age",
        metavar="DAYS",
        help="Leave out machines whose price is older, such as 30d.",
    ),
]


def layer_options(names: Iterable[str]) -> str:
    """Write the books of a catalog as they are given on a command line."""
    return " ".join(f"--catalog {shlex.quote(name)}" for name in names)


def request_options(function: F) -> F:
    """Add the options that say what is trained and how gradients are exchanged."""
    return _add(_REQUEST, function)


def open_request_options(function: F) -> F:
    """The same where the model may come from a file instead."""
    model = click.option(
        "--model",
        metavar="NAME|FILE",
        help="Model profile: a name of 'placer models' or a JSON file.",
    )
    return _add([model, *_REQUEST[1:]], function)


def wish_options(function: F) -> F:
    """Add the options that limit a search."""
    return _add(_WISHES, function)


def _add(options: list[Option], function: F) -> F:
    changed: Callable[..., Any] = function
    for option in reversed(options):
        changed = option(changed)
    return cast(F, changed)
