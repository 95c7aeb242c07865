"""Models: what is known of each, and the sizes, rates and sources of one."""

from __future__ import annotations

import json
from datetime import date

from placer.market.catalog import device_name
from placer.report.blocks import Cell, Report, facts, section, table, text
from placer.report.figures import Document
from placer.units import format_bytes, format_number, format_parameters
from placer.workload.architecture import Architecture
from placer.workload.profile import ModelProfile, profile_from_json


def listed(document: Document, today: date) -> Report:
    """List models, of a ``placer.models/v1`` document; ``names``, where it has them, are those that
    they were asked for by.
    """
    profiles = [_profile(row) for row in document["models"]]
    names = document.get("names") or [profile.name for profile in profiles]
    rows = [[name, *_cells(profile)] for name, profile in zip(names, profiles, strict=True)]
    return Report(
        title="Models",
        subtitle="placer models",
        sections=section(
            "",
            table(
                "Models",
                ("model", "parameters", "gradients", "TBS", "1 sample", "known on"),
                rows,
                narrowed=("1 sample", "known on"),
                units={"gradients": "gradients B"},
            ),
            text(document.get("hint", ""), tone="hint"),
        ),
    )


def _cells(profile: ModelProfile) -> list[Cell]:
    sent = profile.gradient_bytes(profile.compression)
    devices = dict.fromkeys(device_name(rate.gpu, rate.gpu_count) for rate in profile.rates)
    return [
        (format_parameters(profile.parameters), profile.parameters),
        (format_bytes(sent), sent),
        profile.target_batch_size,
        profile.sample_size or "not stated",
        ", ".join(devices) or "its dimensions",
    ]


def _profile(document: Document) -> ModelProfile:
    return profile_from_json(json.dumps(document).encode(), str(document["name"]))


def shown(document: Document, today: date) -> Report:
    """Show sizes, rates and sources of a model, of a ``placer.profile/v1`` document."""
    profile = _profile(document)
    p, shape = profile, profile.architecture
    rows = [
        (
            "gradients",
            f"{format_bytes(p.gradient_bytes('none'))} in FP32, "
            f"{format_bytes(p.gradient_bytes(p.compression))} as sent",
            p.gradient_source,
        ),
        (
            "memory",
            f"{format_bytes(p.device_memory_bytes)} on each device, "
            f"{format_bytes(p.host_memory_bytes)} on the host",
            p.memory_source,
        ),
        ("1 sample", p.sample_size or "size not stated", p.sample_source or ""),
    ]
    if shape is not None:
        rows += [("shape", _shape(shape), ""), ("data", str(p.bytes_per_sample_source), "")]
    speeds: list[list[Cell]] = [
        [
            device_name(rate.gpu, rate.gpu_count),
            rate.framework,
            (format_number(rate.value), rate.value),
            f"{format_number(rate.low)} to {format_number(rate.high)}",
            rate.basis,
            rate.source,
        ]
        for rate in p.rates
    ]
    columns = ("device", "framework", "samples/s", "interval", "basis", "source")
    return Report(
        title=p.title,
        subtitle="placer models",
        verdict=f"{p.name}: {p.title}, {p.parameters:,} parameters, {p.tensors or 'unknown'} "
        f"tensors, TBS {p.target_batch_size:,}",
        sections=(
            *section("Sizes", facts(*rows)),
            *section("Known speeds", table("Speeds", columns, speeds, narrowed=("source",))),
        ),
    )


def _shape(architecture: Architecture) -> str:
    """Write the dimensions that speed and memory follow from."""
    active = (
        f", {format_parameters(architecture.active_parameters)} active for each token"
        if architecture.is_sparse
        else ""
    )
    return (
        f"{architecture.layers} layers of width {architecture.width:,}, keys and values "
        f"{architecture.kv_width:,}, feed-forward {architecture.mlp_width:,}, vocabulary "
        f"{architecture.vocabulary:,}{active}; speed and memory follow from it"
    )
