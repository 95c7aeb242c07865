"""From words to a Problem, as users and neighbouring tools write them, and one error for each."""

import json
import math
import re
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

import placer
from conftest import Run
from instances import ANY, wishing
from placer.cli import COMMANDS
from placer.cli.ask import recommend
from placer.cli.group import COMMANDS as OTHERS
from placer.documents.result_parts import request_document
from placer.errors import PlacerError
from placer.interface.advisor import Advisor
from placer.market.catalog import Catalog
from placer.problem.problem import Problem
from placer.problem.requirements import Quota
from placer.problem.shares import SpeedCap
from placer.problem.words.changes import parse_changes
from placer.problem.words.meanings import MEANT, OPTIONS
from placer.problem.words.readers import read_deadline
from placer.problem.words.request import build_problem
from placer.problem.words.values import check_words
from placer.problem.words.wishes import WISHES
from placer.problem.workers.resources import NO_QUOTA_GPUS
from placer.records import replace
from placer.units import GIB, parse_budget, parse_count
from placer.workload.profile import load_profile


def ask(book: Catalog, model: str = "roberta-xlm", **words: Any) -> Problem:
    """Build a problem from words."""
    return build_problem(load_profile(model), book, **words)


def test_words_become_si_units(erben: Catalog) -> None:
    """5/h is 5 USD/h, 32K is 32,000 samples, names are resolved."""
    problem = ask(
        erben,
        budget="5/h",
        tbs="32K",
        gpu="t4,V100",
        places="gcp",
        market="on-demand",
        workers="2..8",
        data="b2",
    )
    wish = problem.requirements
    assert (wish.budget_usd_per_hour, problem.batch) == (5.0, 32_000)
    assert wish.gpus == ("T4", "V100")
    assert (wish.places_in, wish.market) == (("gcp/*",), "on_demand")
    assert (wish.min_workers, wish.max_workers, wish.data_store) == (2, 8, "backblaze/us-west")


def test_a_floor_alone_asks_for_the_lowest_cost(erben: Catalog) -> None:
    """With a floor and no budget the sensible objective is cost; a stated one wins."""
    assert ask(erben, min_throughput="400/s").requirements.objective == "cost"
    assert ask(erben, min_throughput="400/s", budget="5/h").requirements.objective == "throughput"
    assert (
        ask(erben, min_throughput="400/s", objective="cost-per-sample").requirements.objective
        == "cost-per-sample"
    )


def test_the_last_matching_quota_row_wins(erben: Catalog, tmp_path: Path) -> None:
    """Wildcards first, exceptions below; what no row matches has no quota. A path and its text
    name one file.
    """
    path = tmp_path / "q.csv"
    path.write_text("place,gpu,market,gpus\ngcp,*,*,16\ngcp/us-west1,t4,spot,0\n", encoding="utf-8")
    problem = ask(erben, quota=path)
    assert problem.requirements == ask(erben, quota=str(path)).requirements
    assert problem.quota("gcp/us-central1", "T4", "spot") == 16
    assert problem.quota("gcp/us-west1", "T4", "spot") == 0
    assert problem.quota("aws/us-west-2", "T4", "spot") == NO_QUOTA_GPUS


@pytest.mark.parametrize(
    ("row", "machines", "lacking"),
    [
        (Quota(**ANY, gpus=8), 2, ""),
        (Quota(**ANY, gpus=8), 3, "8 T4 in gcp/us-central1; raise it to 12"),
        (Quota(**{**ANY, "market": "spot"}, gpus=3), 1, "3 T4 spot in gcp/us-central1; raise * 4"),
        (Quota(**ANY, vcpus=16, scope="together"), 2, ""),
        (
            Quota(**ANY, vcpus=16, scope="together"),
            3,
            "16 vCPUs in all *; raise it to 24 for 3 x *",
        ),
    ],
)
def test_a_quota_says_what_a_worker_lacks(
    erben: Catalog, row: Quota, machines: int, lacking: str
) -> None:
    """Machines of four T4 and 8 vCPUs each."""
    problem = wishing(ask(erben), quotas=(row,))
    offers = erben.offers_at("gcp/us-central1")
    offer = next(o for o in offers if (o.device, o.market) == ("T4:4", "spot"))
    said = problem.quota_problem(offer, machines)
    assert fnmatchcase(said, f"the quota allows {lacking}" if lacking else "")


def test_the_lowest_cap_and_the_function_of_a_place_hold(erben: Catalog, phalak: Catalog) -> None:
    """Of two caps on the speed of a pool the lower one; a function that is named counts where a
    place has it.
    """
    caps = SpeedCap(place="*", most=5 * 10**9), SpeedCap(place="gcp/*", most=3 * 10**9)
    pools = wishing(ask(erben), speed_caps=caps).pools
    assert {pool.offer.provider == "gcp": pool.speed_cap for pool in pools} == {
        True: 3 * 10**9,
        False: 5 * 10**9,
    }
    named = wishing(ask(phalak, "niser"), function="lambda")
    places = ("aws/eu-west-2", "gcp/us-west1")
    assert [named.function(place).function for place in places] == ["lambda", "cloud-functions"]


def test_no_quota_holds_that_nobody_gave(erben: Catalog) -> None:
    """A pool is limited by a number for all, by 0 as well; without one by nothing."""
    assert ask(erben).quota("gcp/us-central1", "T4", "spot") == NO_QUOTA_GPUS
    assert {pool.gpu_quota for pool in ask(erben, quota="3").pools} == {3}
    assert ask(erben, quota="0").pools == ()


def test_documents_without_a_quota_mean_eight(erben: Catalog) -> None:
    """Once it was eight for everybody, and documents did not say so; no limit is written down."""
    eight, none = ask(erben, quota="8"), ask(erben)
    document = eight.to_dict()
    assert "quota_gpus" not in document["requirements"]
    assert Problem.from_dict(document).requirements.quota_gpus == 8
    assert none.to_dict()["requirements"]["quota_gpus"] is None
    assert Problem.from_dict(none.to_dict()).requirements.quota_gpus is None


def test_require_measured_leaves_estimates_out(default: Catalog) -> None:
    """On today's market only T4 and A10 were measured with this model."""
    pools = ask(default, require_measured=True).pools
    assert {(p.offer.gpu, p.offer.gpu_count) for p in pools} <= {
        ("T4", 1),
        ("T4", 4),
        ("A10", 1),
        ("V100", 8),
    }
    assert all(p.alone.basis in ("measured", "published") for p in pools)


@pytest.mark.parametrize(
    ("device_gib", "host_gib", "gpus", "broken"),
    [
        (15, 30, 1, []),
        (16, 30, 1, [("device-memory", "xlm needs 16.0 GiB on each device; T4 has 15 GiB")]),
        (15, 31, 1, [("host-memory", "xlm needs 31.0 GiB of host memory; * has 30 GiB")]),
        (15, 30, 4, [("device-memory", "xlm ran out of memory on a machine of 4 x T4: Erben *")]),
    ],
)
def test_a_model_needs_memory_of_devices_and_hosts(
    erben: Catalog, device_gib: int, host_gib: int, gpus: int, broken: list[tuple[str, str]]
) -> None:
    """A T4 has 15 GiB and its host 30, which may be filled; four ran out of them when tried."""
    problem = ask(erben)
    sizes = {"device_memory_bytes": device_gib * GIB, "host_memory_bytes": host_gib * GIB}
    asked = replace(problem, profile=replace(problem.profile, name="xlm", **sizes))
    offers = erben.offers_at("gcp/us-central1")
    offer = next(o for o in offers if (o.gpu, o.gpu_count) == ("T4", gpus))
    found = asked.offer_problems(offer)
    assert [code for code, _ in found] == [code for code, _ in broken]
    assert all(fnmatchcase(said, want) for (_, said), (_, want) in zip(found, broken, strict=True))
    assert (offer in [*asked.admitted_offers()]) == (not broken)


@pytest.mark.parametrize("quota", [None, "16"])
@pytest.mark.parametrize(
    "words",
    [
        {"places": "gcp/*"},
        {"places": "europe", "market": "spot"},
        {"not_places": "aws/*", "market": "on-demand"},
        {"places": "us", "not_places": "gcp/*", "max_price_age": "20000d"},
    ],
)
def test_what_is_admitted_somewhere_is_looked_up_among_what_is_anywhere(
    default: Catalog, words: dict[str, Any], quota: str | None
) -> None:
    """Questions about some places or one market share their workers with those about all, and have
    the same as if each of their offers were looked at alone.
    """
    problem = ask(default, quota=quota, **words)
    one_by_one = [p for o in problem.admitted_offers() for p in problem.pools_of(o)]
    assert 0 < len(problem.pools) < len(ask(default, quota=quota).pools)
    assert [*problem.pools] == [pool for pool in one_by_one if pool.max_count >= 1]


def test_all_workers_of_a_site_read_over_its_line(erben: Catalog) -> None:
    """The samples of 29 kB that 62.5 MB/s bring from a store that has no limit; clouds have no such
    line, nor has a site that reads nothing.
    """
    site = "lab=2xT4@Berlin:line=500Mb/s"
    reading = ask(erben, own=site, data="b2")
    lines = [reading.line_samples_per_s(place) for place in ("onprem/lab", "gcp/us-west1")]
    assert lines == [pytest.approx(62.5e6 / 29_000), math.inf]
    assert reading.least_loaded_samples_per_s == lines[0]
    assert [ask(erben, own=site, **w).workers_hold_back for w in ({"data": "b2"}, {})] == [
        True,
        False,
    ]


def test_a_measured_link_replaces_the_book(erben: Catalog) -> None:
    """250 Mb/s are 31.25 MB/s, both directions, labelled measured; the round-trip time stays."""
    problem = ask(erben, links="gcp/us-west1:aws/us-west-2=250Mb/s")
    for src, dst in (("gcp/us-west1", "aws/us-west-2"), ("aws/us-west-2", "gcp/us-west1")):
        link = problem.network.link(src, dst)
        assert (link.bytes_per_second, link.basis) == (31.25e6, "measured")
        assert link.rtt_s == pytest.approx(0.0146, abs=0.001)


def test_continents_and_providers_are_places(default: Catalog) -> None:
    """Europe is every region there, aws is aws/*; both may be combined with wildcards. EU is the
    Union: what lies in Switzerland, Norway, Iceland and the United Kingdom is not in it.
    """
    europe = ask(default, places="europe").requirements.places_in
    assert {default.region(place).continent for place in europe} == {"EU"}
    assert len(europe) > 20
    outside = {"CH", "GB", "IS", "NO"}
    union = [place for place in europe if default.region(place).country not in outside]
    assert ask(default, places="EU,aws").requirements.places_in == (*union, "aws/*")


advisor = Advisor("erben-2023")


def test_spot_is_short_for_its_market() -> None:
    """The question is the same, down to its document."""
    short = advisor.problem("resnet50", spot=True, budget="5/h")
    long = advisor.problem("resnet50", market="spot", budget="5/h")
    assert short.requirements == long.requirements
    assert request_document(short) == request_document(long)
    both = advisor.problem("resnet50", market="spot", spot=True, budget="5/h")
    assert both.requirements == long.requirements


def test_budgets_of_longer_times() -> None:
    """Each is a rate by the hour, of which a month has 730."""
    texts = ("3000/month", "3000 per month", "100/day", "5 usd/hour")
    rates = [parse_budget(text) for text in texts]
    assert rates == pytest.approx([3000 / 730, 3000 / 730, 100 / 24, 5.0])


def test_counts_in_billions() -> None:
    """As people write tokens and samples."""
    assert parse_count("1B") == 10**9
    assert parse_count("1e9") == 10**9
    llama = advisor.problem("llama-3.2-1b", tokens="1B", catalog="default")
    assert llama.requirements.tokens == 10**9
    assert llama.requirements.samples == -(-(10**9) // 8192)  # sequences of 8,192 tokens
    assert check_words({"tokens": 1e9}) == {"tokens": "1000000000"}
    with pytest.raises(PlacerError, match="is of type"):
        check_words({"tokens": 1.5})


def test_a_budget_in_euros_names_its_rate() -> None:
    """In the request, in the words of a change, and where it is scaled."""
    problem = advisor.problem("resnet50", budget="5EUR/h")
    assert problem.requirements.budget_usd_per_hour == pytest.approx(5.602)
    said = request_document(problem)["budget_rate"]
    assert said.startswith("5EUR/h at 1 EUR = 1.1204 USD on 2026-10-05")
    answer = placer.whatif("resnet50", set=["budget=x0.5"], budget="5EUR/h", catalog="erben-2023")
    assert answer.after.problem.requirements.budget_usd_per_hour == pytest.approx(2.801)


def test_a_number_of_gpus_is_kept_by_answer_and_document() -> None:
    """Only machines with eight V100 are admitted, and the saved document is checked again."""
    from placer.documents.saved_result import check_result

    result = placer.recommend(
        "resnet50", gpu="V100:8", places="onprem/erben-eu", catalog="erben-2023"
    )
    assert result.placement is not None
    assert {group.gpu_count for group in result.placement.groups} == {8}
    assert result.to_dict()["request"]["gpus"] == ["V100:8"]
    check_result(result.to_saved(whole=True), "saved")


WEDNESDAY = datetime(2026, 11, 25, 18, 30, 20, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("36h", 36 * 3600.0),
        ("friday", (2 * 24 + 5.5) * 3600 - 60),  # midnight after Friday, in whole minutes
        ("Wednesday", 5.5 * 3600 - 60),  # today
        ("tuesday", (6 * 24 + 5.5) * 3600 - 60),  # of next week
        ("2026-12-04", (9 * 24 + 5.5) * 3600 - 60),
        ("9999-12-31", (2_912_114 * 24 + 5.5) * 3600 - 60),  # the last day that Python knows
    ],
)
def test_deadlines_are_times_or_days(text: str, seconds: float) -> None:
    """A day lasts until midnight UTC."""
    assert read_deadline(text, WEDNESDAY) == seconds


on_default = Advisor("default")
WORKERS = ("--workers", "gcp/us-central1=4xT4:spot")


def wishes(**words: Any) -> Any:
    """The wishes of a question about ResNet-50."""
    return on_default.problem("resnet50", **words).requirements


def test_a_size_with_a_store_is_the_size_of_its_data() -> None:
    """The same as two options; two sizes contradict each other."""
    both = wishes(data="2TB@s3://us-east-1")
    assert both == wishes(data="aws/us-east-1", data_size="2TB")
    assert both.data_bytes == 2e12
    with pytest.raises(PlacerError, match="together with data-size"):
        wishes(data="2TB@s3://us-east-1", data_size="1TB")


@pytest.mark.parametrize(
    ("words", "months", "samples"),
    [
        ({}, 1, 2e12 / 122_800),  # one pass, where nobody says how many samples
        ({"passes": 3}, 1, 3 * 2e12 / 122_800),
        ({"samples": "100M", "deadline": "30d"}, 1, 1e8),
        ({"samples": "100M", "deadline": "31d"}, 2, 1e8),
    ],
)
def test_a_copy_of_the_data_by_hand(words: dict[str, Any], months: int, samples: float) -> None:
    """2 TB from Virginia cost 0.09 USD/GiB on their way to Iowa and 0.02 for each begun month of
    730 h there; streams side by side carry them at the 4.8 Gb/s of a machine.
    """
    source: dict[str, Any] = {"data": "2TB@gs://us-central1", "data_source": "s3://us-east-1"}
    problem = on_default.problem("resnet50", budget="5/h", **source, **words)
    copy, gib = problem.data_copy, 2e12 / GIB
    assert copy is not None
    assert (copy.egress_usd, copy.kept_usd) == pytest.approx((0.09 * gib, 0.02 * gib * months))
    assert copy.usd_per_sample * samples == pytest.approx(copy.usd)
    assert problem.requirements.copy_s == copy.seconds == pytest.approx(2e12 * 8 / 4.8e9)


def test_bytes_are_samples_of_the_model() -> None:
    """1 GB of images of 122,802 bytes each; with other sequences, of language models too."""
    profile = on_default.problem("resnet50").profile
    assert profile.bytes_per_sample is not None
    (data,) = wishes(data="gcp/us-central1=1GB:move").datasets
    assert (data.samples, data.may_move) == (round(1e9 / profile.bytes_per_sample), True)
    words: dict[str, Any] = {"data": {"gcp/us-central1": "1GB:stay"}, "seq_len": 1024}
    (text,) = on_default.problem("gpt2", **words).requirements.datasets
    sequence_bytes = on_default.problem("gpt2", seq_len=1024).profile.bytes_per_sample
    assert sequence_bytes is not None
    assert text.samples == round(1e9 / sequence_bytes)


def test_an_estimate_says_what_a_pass_over_the_data_takes(run: Run) -> None:
    """5 TB cost 100 times as much as 50 GB: 425.84 and 4.26 USD at 61.11 USD/h."""
    prices = []
    for size in ("5TB", "50GB"):
        data = ("--data", f"{size}@s3://us-east-1")
        done = run("estimate", "--model", "resnet50", *WORKERS, *data, "--json")
        (note,) = [n for n in json.loads(done.stdout)["notes"] if n["code"] == "one-pass"]
        prices.append(float(re.findall(r"\$([0-9.]+)", note["message"])[0]))
    assert prices[0] / prices[1] == pytest.approx(100, rel=0.01)
    shown = run("estimate", "--model", "resnet50", *WORKERS, *data, columns=200).stdout
    assert "One pass over 50 GB in aws/us-east-1" in shown
    assert re.search("data size +50 GB", shown)


FLAGS = {flag for option in recommend.command.params for flag in option.opts}


def test_every_meaning_is_an_option_of_recommend() -> None:
    """And no word that placer has is said to mean another."""
    assert {f"--{own}" for own in OPTIONS} <= FLAGS
    assert {f"--{other}" for other in MEANT} & FLAGS == set()
    assert len(MEANT) == sum(len(others) for others in OPTIONS.values())


def test_every_command_named_instead_exists() -> None:
    """Or is left out until it does; no command of placer is said to mean another."""
    named = {instead.split()[1] for instead in OTHERS if instead.startswith("placer ")}
    assert {name for name in named if not name.startswith("-")} <= {*COMMANDS, "rents"}
    assert {other for others in OTHERS.values() for other in others} & {*COMMANDS} == set()


def test_python_job_files_and_changes_answer_alike() -> None:
    """With the word that stands there: places in Python, in on the command line."""
    for word, own in (("max_price", "budget"), ("region", "places"), ("batch_size", "tbs")):
        assert own in WISHES
        with pytest.raises(PlacerError, match=f"unknown word '{word}'") as refused:
            placer.recommend("resnet50", **{word: "5"})  # type: ignore[arg-type]
        assert refused.value.hint == f"the word for it is '{own}'"
    with pytest.raises(PlacerError, match="unknown change 'region'") as unknown:
        parse_changes(["region=eu"])
    assert "'in'" in unknown.value.hint
