"""From the user's words to a validated Problem, for the command line and for Python."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Unpack

from placer.errors import PlacerError, blaming
from placer.market.catalog import Catalog
from placer.market.words.own_places import own_places
from placer.market.words.selection import words as split
from placer.problem.contradictions import without_contradictions
from placer.problem.problem import Problem
from placer.problem.requirements import Requirements
from placer.problem.words.changes import DEFENDED, Change, changed_book, defended_book
from placer.problem.words.data import floor_in_samples, in_plain_words
from placer.problem.words.readers import default_objective, read_wish
from placer.problem.words.values import check_words
from placer.problem.words.wishes import WISHES, Wishes
from placer.records import replace
from placer.units import parse_bandwidth, parse_count
from placer.workload.models.decoder import (
    BF16_BYTES,
    FOUR_BIT_BYTES,
    architecture_of,
    with_adapters,
    with_sequence_length,
)
from placer.workload.overlay import LinkSpeed, as_overlay, with_link_speeds
from placer.workload.profile import ModelProfile

LIMITS_OF_RENT = (
    "budget",
    "min_throughput",
    "deadline",
    "max_carbon",
    "objective",
    "use",
    "confidence",
)
"""Words that say how much of what may be rented beside machines of one's own."""
USER_SPREAD = 0.1
"""A measured stream of the user's repeats within this share: as the cloud links of Erben et al.
(2024) did.
"""


def build_problem(profile: ModelProfile, catalog: Catalog, **words: Unpack[Wishes]) -> Problem:
    """Read the user's words and check them against profile and catalog."""
    given: Mapping[str, Any] = check_words(words)
    catalog = _with_own(_with_figures(catalog, given.get("figures")), given.get("own"))
    given = _for_own_alone(given, catalog)
    overlay = as_overlay(given.get("calibration"))
    links = given.get("links")
    catalog = with_links(overlay.over_catalog(catalog), split(links, "link") if links else [])
    return without_contradictions(
        in_sequences(
            Problem(
                profile=overlay.over_profile(profile),
                catalog=catalog,
                requirements=_requirements(_in_samples(given, profile), catalog),
                calibration=overlay.calibration,
            )
        )
    )


def _requirements(given: Mapping[str, Any], catalog: Catalog) -> Requirements:
    given = _in_full(given)
    if given.get("samples") is not None and given.get("tokens") is not None:
        raise PlacerError("samples and tokens both say how much is trained", "give one of them")
    fields: dict[str, Any] = {"objective": default_objective(given)}
    for wish in WISHES.values():
        value = given.get(wish.name, wish.default)
        if wish.fields and value is not None:
            with blaming(wish.name, value):
                fields |= read_wish(wish, value, catalog, given)
    return Requirements(**fields)


def _with_figures(catalog: Catalog, given: Any) -> Catalog:
    """Return a book at the figures asked for; a changed world is asked as it is."""
    wish = WISHES["figures"]
    value = given or wish.default
    if value not in wish.metavar.split("|"):
        raise PlacerError(f"{wish.word} '{value}'", f"write {wish.metavar.replace('|', ' or ')}")
    return catalog if value != DEFENDED or catalog.changes else defended_book(catalog)


def _with_own(catalog: Catalog, given: Any) -> Catalog:
    """Put the user's own machines into the book, as changes of it that documents keep."""
    if not given:
        return catalog
    from placer.market.words.own_machines import own_words
    from placer.market.words.own_places import PREFIX

    made = [Change(text=f"{PREFIX}{word}", what="own", value=word) for word in own_words(given)]
    return changed_book(catalog, made)


def _for_own_alone(given: Mapping[str, Any], catalog: Catalog) -> Mapping[str, Any]:
    """Ask for the user's own machines alone where nothing else limits the question or says what is
    best: a search over all machines would rent the largest.
    """
    if not given.get("own"):
        return given
    own = own_places(catalog.changes)
    places = given.get("places")
    if not any(given.get(word) for word in (*LIMITS_OF_RENT, "places")):
        return {**given, "places": list(own)}
    return given if not places else {**given, "places": [*split(places, "place"), *own]}


def _in_samples(given: Mapping[str, Any], profile: ModelProfile) -> Mapping[str, Any]:
    """Write tokens per second and sizes of data as samples of the model, or as the size of a
    store's data.
    """
    if given.get("seq_len") is not None and (given.get("data") or given.get("min_throughput")):
        length = parse_count(str(given["seq_len"]), WISHES["seq_len"].word)
        profile = with_sequence_length(profile, length)
    if given.get("min_throughput"):
        with blaming("min_throughput", given["min_throughput"]):
            floor = floor_in_samples(given["min_throughput"], profile)
        given = {**given, "min_throughput": floor}
    if not given.get("data"):
        return given
    data, size = in_plain_words(split(given["data"], "data"), profile)
    if size is None:
        return {**given, "data": data}
    if given.get("data_size") not in (None, size):
        raise PlacerError(
            f"data of {size} together with data-size '{given['data_size']}'", "give the size once"
        )
    return {**given, "data": data, "data_size": size}


def _in_full(given: Mapping[str, Any]) -> Mapping[str, Any]:
    if not given.get("spot"):
        return given
    if given.get("market") not in (None, "any", "spot"):
        raise PlacerError(
            f"spot together with market '{given['market']}'", "give --spot or --market, not both"
        )
    return {**given, "market": "spot"}


def with_links(catalog: Catalog, given: list[str]) -> Catalog:
    """Put measured links over those of a catalog; round-trip times stay as they are known."""
    speeds = []
    for word in given:
        match = re.fullmatch(r"(?P<a>[^:=]+):(?P<b>[^:=]+)=(?P<rate>.+)", word)
        if match is None:
            raise PlacerError(
                f"link '{word}' is not a measured link",
                "write it as gcp/us-west1:aws/us-west-2=250Mb/s",
            )
        gbps = parse_bandwidth(match["rate"]) * 8 / 1e9
        for src, dst in ((match["a"], match["b"]), (match["b"], match["a"])):
            low, high = gbps * (1 - USER_SPREAD), gbps * (1 + USER_SPREAD)
            day = catalog.as_of[1]
            made = LinkSpeed(
                src=src,
                dst=dst,
                gbps_one_stream=gbps,
                gbps_low=low,
                gbps_high=high,
                source="given with --link",
                as_of=day,
            )
            speeds.append(made)
    return with_link_speeds(catalog, speeds)


def in_sequences(problem: Problem) -> Problem:
    """Apply the wishes about sequence length, adapters and tokens; done twice, it changes nothing.
    The unit inside is the sequence: ``tokens`` become ``samples``, and a batch in tokens becomes
    one in sequences, both at the sequence length of the question. `PlacerError` if the model has no
    tokens.
    """
    wish = problem.requirements
    profile = _profile(problem.profile, wish)
    if wish.tokens is not None:
        length = architecture_of(profile, "--tokens").sequence_length
        wish = replace(wish, samples=-(-wish.tokens // length))
    if wish.batch_tokens is not None:
        length = architecture_of(profile, "a batch in tokens").sequence_length
        wish = replace(wish, target_batch_size=max(1, round(wish.batch_tokens / length)))
    if profile is problem.profile and wish is problem.requirements:
        return problem
    return replace(problem, profile=profile, requirements=wish)


def _profile(profile: ModelProfile, wish: Requirements) -> ModelProfile:
    shape = profile.architecture
    stored = BF16_BYTES if shape is None or shape.has_adapters else shape.frozen_bytes_per_parameter
    if stored < BF16_BYTES and wish.qlora is None:
        raise PlacerError(
            f"{profile.name} has weights of 4 bits, which no optimizer changes",
            "add --qlora 16, or give the config.json of the model before it was quantized",
        )
    if wish.sequence_length is not None:
        profile = with_sequence_length(profile, wish.sequence_length)
    for rank, frozen_bytes in ((wish.lora, BF16_BYTES), (wish.qlora, FOUR_BIT_BYTES)):
        if rank is not None:
            profile = with_adapters(profile, rank, frozen_bytes)
    return profile
