"""``placer models``: what can be trained."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from placer.cli.options import table_option
from placer.cli.output import console, new_table, print_json
from placer.market.catalog import device_name

if TYPE_CHECKING:
    from placer.workload.architecture import Architecture
    from placer.workload.profile import ModelProfile


MODELS_SCHEMA = "placer.models/v1"


@click.command("models", epilog="Example: placer models roberta-xlm")
@click.argument("name", required=False)
@click.option(
    "--public",
    is_flag=True,
    help="List public models instead, by their names on Hugging Face: their dimensions are known.",
)
@table_option
def command(name: str | None, public: bool, as_json: bool) -> None:
    """List the models that have a profile, or show the sizes, rates and sources of NAME: one of
    them, a public model such as Qwen/Qwen2.5-7B, a file, hf:config.json, or a number of parameters
    such as 7B.
    """
    from placer.interface.models import model_of
    from placer.workload.models.public_models import public_model_names
    from placer.workload.profile import SCHEMA, profile_document, profile_names

    listed = public_model_names() if public else profile_names()
    profiles = [model_of(n) for n in ([name] if name else listed)]
    if as_json:
        documents = [{"schema": SCHEMA, **profile_document(p)} for p in profiles]
        print_json(documents[0] if name else {"schema": MODELS_SCHEMA, "models": documents})
    elif name:
        _show(profiles[0])
    else:
        _list(profiles, listed)
        if not public:
            count = len(public_model_names())
            tail = f"{count} public models are known by name: placer models --public"
            console(stderr=True).print(tail, style="dim")


def _show(p: ModelProfile) -> None:
    from placer.units import format_bytes, format_number

    out = console()
    sizes = (
        f"{format_bytes(p.gradient_bytes('none'))} in FP32, "
        f"{format_bytes(p.gradient_bytes(p.compression))} as sent"
    )
    memory = (
        f"{format_bytes(p.device_memory_bytes)} on each device, "
        f"{format_bytes(p.host_memory_bytes)} on the host"
    )
    out.print(
        f"{p.name}: {p.title}, {p.parameters:,} parameters, {p.tensors or 'unknown'} tensors, "
        f"TBS {p.target_batch_size:,}",
        style="bold",
    )
    out.print(f"gradients {sizes} ({p.gradient_source})")
    out.print(f"memory {memory} ({p.memory_source})")
    source = "" if p.sample_source is None else f" ({p.sample_source})"
    out.print(f"{p.sample_words}{source}")
    if p.architecture is not None:
        out.print(_shape(p.architecture))
        out.print(f"data {p.bytes_per_sample_source}")
    if not p.rates:
        return
    table = new_table(("device", "framework", "samples/s", "basis", "source"))
    for rate in p.rates:
        speed = (
            f"{format_number(rate.value)} ({format_number(rate.low)} to {format_number(rate.high)})"
        )
        table.add_row(
            device_name(rate.gpu, rate.gpu_count), rate.framework, speed, rate.basis, rate.source
        )
    out.print(table)


def _shape(architecture: Architecture) -> str:
    """Write the dimensions that speed and memory follow from."""
    from placer.units import format_parameters

    active = (
        f", {format_parameters(architecture.active_parameters)} active for each token"
        if architecture.is_sparse
        else ""
    )
    return (
        f"shape {architecture.layers} layers of width {architecture.width:,}, keys and values "
        f"{architecture.kv_width:,}, feed-forward {architecture.mlp_width:,}, vocabulary "
        f"{architecture.vocabulary:,}{active}; speed and memory follow from it"
    )


def _list(profiles: list[ModelProfile], names: list[str]) -> None:
    from placer.units import format_bytes, format_parameters

    table = new_table(
        ("model", "parameters", "gradients", "TBS", "1 sample", "known on"),
        right=("parameters", "gradients", "TBS"),
    )
    for name, p in zip(names, profiles, strict=True):
        devices = ", ".join(
            dict.fromkeys(device_name(rate.gpu, rate.gpu_count) for rate in p.rates)
        )
        sizes = (
            format_parameters(p.parameters),
            format_bytes(p.gradient_bytes(p.compression)),
            f"{p.target_batch_size:,}",
            p.sample_size or "not stated",
        )
        table.add_row(name, *sizes, devices or "its dimensions")
    console().print(table)
