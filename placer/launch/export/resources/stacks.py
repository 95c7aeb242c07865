"""Whether AWS Lambda can run the functions of a plan, and the memory that they need."""

from __future__ import annotations

from placer.documents.manifest.manifest_reader import plain_name
from placer.errors import PlacerError
from placer.launch.export.export_plan import ExportPlan
from placer.launch.serverless.protocol import FORMATS
from placer.problem.exchange import traits
from placer.units import GIB

HELD = {"none": 2.0, "fp16": 3.0, "int8": 5.0}
"""Memory of a function for each byte of a gradient: the sum in float32, and one part or the mean as
it is sent (`placer.launch.serverless.protocol.Mean`).
"""
RUNTIME_GIB = 0.25
"""Python, boto3 and NumPy (assumed)."""
MOST_GIB = 10.0
MOST_SECONDS = 900
"""Limits of AWS Lambda."""


def check_aggregators(plan: ExportPlan) -> None:
    """Refuse functions that are not, or cannot be, in AWS Lambda."""
    manifest, aggregator = plan.manifest, plan.manifest.aggregator
    if aggregator is None or traits(manifest.exchange.strategy).hub != "function":
        raise PlacerError(
            f"the exchange {manifest.exchange.strategy} has no cloud function",
            "cloudformation is for central and hierarchical",
        )
    for place in (aggregator.place, *(b.place for b in manifest.buckets)):
        provider, _, region = place.partition("/")
        if provider != "aws" or plain_name(region) != region:
            raise PlacerError(
                f"the functions are deployed on AWS Lambda, and {place} is not a region of AWS",
                "ask again with --in 'aws/*', or with --exchange parameter-server; placer run "
                "--local and --to compose play them here",
            )
    if manifest.exchange.compression not in FORMATS:
        raise PlacerError(
            f"the aggregator cannot sum {manifest.exchange.compression} gradients",
            f"use --compression {', '.join(FORMATS)}",
        )
    if memory_gib(plan) > MOST_GIB:
        raise PlacerError(
            f"the aggregator needs {memory_gib(plan):.1f} GiB, AWS Lambda has {MOST_GIB:g}",
            "use a server: --exchange parameter-server",
        )


def memory_gib(plan: ExportPlan, *, regional: bool = False) -> float:
    """Return the GiB of a function: the plan's, or what the protocol holds, and in a region 1."""
    aggregator, model = plan.manifest.aggregator, plan.manifest.model
    assert aggregator is not None
    held = HELD[plan.manifest.exchange.compression] * model.gradient_bytes / GIB + RUNTIME_GIB
    return max(1.0 if regional else aggregator.memory_gib or 0.0, held)
