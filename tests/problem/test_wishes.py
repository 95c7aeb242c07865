"""The table of wishes: the command line, Python, documents and changed worlds read the same
rows.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import mypy.api
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placer.advice.worlds.whatif import apply
from placer.cli.ask import estimate, limits, recommend, worlds
from placer.cli.command import OWN_FILES
from placer.documents.result_parts import request_document
from placer.documents.schemas import schema_document
from placer.errors import PlacerError
from placer.interface.advisor import Advisor
from placer.problem.problem import Problem
from placer.problem.requirements import Requirements
from placer.problem.words.changes import parse_changes
from placer.problem.words.readers import read_wish
from placer.problem.words.values import check_words
from placer.problem.words.wishes import CHANGES, INSIDE, TRAINING, WISHES, Wish
from placer.report.question import NO_WISH

SEARCHES = [
    *(recommend.command, limits.explain_command, limits.pareto_command),
    *(worlds.whatif_command, worlds.sweep_command, worlds.robust_command),
]
BY_HAND = [estimate.command]
QUESTION = {"model": "resnet50", "catalog": "erben-2023"}
CENTRAL = {"model": "niser", "catalog": "phalak-2023"}
LANGUAGE = {"model": "llama-3.2-1b", "catalog": "default"}
BESIDE: dict[str, dict[str, Any]] = {
    "confidence": {"min_throughput": "10/s"},
    "aggregator": CENTRAL,
    "storage": CENTRAL,
    **dict.fromkeys(("tokens", "seq_len", "lora", "qlora", *INSIDE), LANGUAGE),
    "critical_batch": {"tbs": "8K..64K"},
    "deadline": {"samples": "10M"},
    "startup": {"samples": "10M"},
    "passes": {"data": "gcp/us-west1=2M:move"},
    "data_size": {"data": "backblaze/us-west"},
    "data_cache": {"data": "backblaze/us-west"},
    "data_source": {"data": "backblaze/us-west"},
    "samples_to_target": {"exchange": "local-sgd"},
    "quorum": {"exchange": "local-sgd"},
    "grace": {"exchange": "local-sgd", "quorum": "2"},
    "mixed": {"transport": "nccl"},
}
"""What a wish needs beside itself to mean something."""
advisor = Advisor()


@pytest.fixture
def sample_of(tmp_path: Path) -> Callable[[Wish], str]:
    """Words that follow the grammar of a wish; those that name a file name one that is there."""

    def sample(wish: Wish) -> str:
        if wish.name == "quota":
            path = tmp_path / wish.example
            path.write_text("place,gpu,market,gpus\n*,T4,spot,3\n", encoding="utf-8")
            return str(path)
        if wish.name == "calibration":
            path = tmp_path / wish.example
            path.write_text(json.dumps({"schema": "placer.calibration/v1", "name": "own"}), "utf-8")
            return str(path)
        return wish.example

    return sample


def asked(words: dict[str, Any]) -> Problem:
    """The problem of some words in Python."""
    words = {**QUESTION, **words}
    return advisor.problem(words.pop("model"), words.pop("catalog"), **words)


def typed(words: dict[str, Any]) -> Problem:
    """The problem of the same words on the command line."""
    arguments = []
    for name, value in {**QUESTION, **words}.items():
        flag = WISHES[name].flag if name in WISHES else f"--{name}"
        arguments += [flag] if value is True else [flag, str(value)]
    context = recommend.command.make_context("recommend", arguments)
    given_words = {name: context.params[name] for name in WISHES}
    return advisor.problem(context.params["model"], context.params["catalog"], **given_words)


def test_every_field_belongs_to_one_wish() -> None:
    """All but the limits that only searches set: for a break-even, over ranges of speeds, over
    numbers of workers and engines; and but the seconds of a copy, which the problem works out.
    """
    owners = [field for wish in WISHES.values() for field in wish.fields]
    known = {*Requirements.__struct_fields__}
    assert len(owners) == len(set(owners))
    searched = {"most_usd_per_million_samples", "speed_caps", "least_speed", "narrowed", "engine"}
    assert known - set(owners) == {*searched, "copy_s"}


@pytest.mark.parametrize("command", [*SEARCHES, *BY_HAND], ids=lambda command: command.name)
def test_every_command_has_the_options_of_the_table(command: click.Command) -> None:
    """Each row is one option with its flag, help and default; nothing of a request stands beside
    the table.
    """
    options = {option.name: option for option in command.params if isinstance(option, click.Option)}
    by_hand = command in BY_HAND
    expected = {*TRAINING, *({"quota"} & set(options))} if by_hand else set(WISHES)
    own_workers = {"workers"} if by_hand else set()
    assert set(options) & set(WISHES) == expected | own_workers
    for name in expected:
        wish, option = WISHES[name], options[name]
        assert option.opts == [wish.flag]
        assert option.help == (f"{wish.help} {OWN_FILES}" if name == "own" else wish.help)
        assert option.multiple == wish.repeatable
        assert option.is_flag == wish.is_flag
        assert wish.is_flag or (option.default or None) == (wish.default or None) or wish.repeatable
    order = [name for name in options if name in expected]
    rows = [name for name in WISHES if name in expected]
    assert [n for n in order if n != "quota"] == [n for n in rows if n != "quota"]


@pytest.mark.parametrize("name", [name for name in WISHES if name != "calibration"])
def test_python_and_the_command_line_ask_the_same(
    name: str, sample_of: Callable[[Wish], str]
) -> None:
    """One wish after the other, each with words that change the request."""
    wish = WISHES[name]
    words = {**BESIDE.get(name, {}), name: True if wish.is_flag else sample_of(wish)}
    python, line = asked(words), typed(words)
    assert python.requirements == line.requirements
    assert python.catalog.digest == line.catalog.digest
    without = asked({key: value for key, value in words.items() if key != name})
    if wish.fields:
        assert python.requirements != without.requirements
        changed = [
            name
            for name in Requirements.__struct_fields__
            if getattr(python.requirements, name) != getattr(without.requirements, name)
        ]
        follows = {
            "samples": {"startup_s"},
            "tokens": {"samples", "startup_s"},
            "quorum": {"min_workers"},
            "transport": {"uniform"},  # hivemind divides a step by speed
        }.get(name, set())
        assert set(changed) - {"objective", "exchange"} <= {*wish.fields, *follows}
    elif name == "own":
        assert {*python.catalog.regions} - {*without.catalog.regions} == {"onprem/office"}
        assert python.requirements.places_in == ("onprem/office",)
    elif name == "figures":  # this book has prices of a month, which all count fully
        assert python.catalog.digest == without.catalog.digest
    elif name == "spot":
        assert (python.requirements.market, without.requirements.market) == ("spot", "any")
    else:
        assert python.catalog.links != without.catalog.links


@pytest.mark.parametrize(
    ("plain", "text"),
    [
        ({"min_throughput": 400}, {"min_throughput": "400/s"}),
        ({"min_throughput": 0.125}, {"min_throughput": "0.125/s"}),
        ({"deadline": 3600, "samples": 10_000_000}, {"deadline": "1h", "samples": "10M"}),
        ({"workers": (1, 4)}, {"workers": "1..4"}),
        ({"workers": 4}, {"workers": "4"}),
        ({"regions": (2, 3)}, {"regions": "2..3"}),
        ({"local_steps": (1, 64)}, {"local_steps": "1..64"}),
        ({"tbs": 32768}, {"tbs": "32Ki"}),
        ({"tbs": (8192, 65536)}, {"tbs": "8Ki..64Ki"}),
        ({"critical_batch": 1000, "tbs": 4}, {"critical_batch": "1K", "tbs": "4"}),
        (
            {**LANGUAGE, "tokens": 10**10, "seq_len": 4096, "lora": 8},
            {**LANGUAGE, "tokens": "10B", "seq_len": "4Ki", "lora": "8"},
        ),
        ({"streams": 4, "overlap": True}, {"streams": "4", "overlap": True}),
        ({"interruption": 0.3, "unavailable": 0.05}, {"interruption": "30%", "unavailable": "5%"}),
        ({"gpu": ["T4", "A10"]}, {"gpu": "T4,A10"}),
        ({"gpu": {"T4"}, "places": ("gcp", "aws")}, {"gpu": "T4", "places": "gcp,aws"}),
        (
            {"links": {("gcp/us-west1", "aws/us-west-2"): "250Mb/s"}},
            {"links": "gcp/us-west1:aws/us-west-2=250Mb/s"},
        ),
        (
            {"exchange": "local-sgd", "samples_to_target": {"local-sgd": 4 / 3}},
            {"exchange": "local-sgd", "samples_to_target": f"local-sgd={4 / 3}"},
        ),
        ({"keep": {"gradients": "europe"}}, {"keep": "gradients=europe"}),
        ({"use": {"gcp/us-west1": "2xT4:spot"}}, {"use": "gcp/us-west1=2xT4:spot"}),
        ({"data": {"gcp/us-west1": "2M:stay"}}, {"data": "gcp/us-west1=2M:stay"}),
    ],
)
def test_plain_values_stand_for_text(plain: dict[str, Any], text: dict[str, Any]) -> None:
    """Numbers, tuples, lists and mappings, where the unit is plain."""
    one, other = asked(plain), asked(text)
    assert one.requirements == other.requirements
    assert one.catalog.links == other.catalog.links


@given(
    low=st.integers(1, 64),
    more=st.integers(0, 64),
    rate=st.floats(1e-6, 1e9),
    share=st.floats(0, 0.99),
)
def test_numbers_are_read_exactly(low: int, more: int, rate: float, share: float) -> None:
    """What is written as text is what was given."""
    words = check_words(
        {"workers": (low, low + more), "tbs": low, "min_throughput": rate, "interruption": share}
    )
    book = advisor.problem("resnet50", "erben-2023").catalog
    values = {
        field: value
        for name, text in words.items()
        for field, value in read_wish(WISHES[name], text, book, {}).items()
    }
    assert (values["min_workers"], values["max_workers"]) == (low, low + more)
    assert (values["target_batch_size"], values["min_samples_per_second"]) == (low, rate)
    assert values["interruption"] == share


@pytest.mark.parametrize("wish", WISHES.values(), ids=WISHES)
def test_true_and_false_are_no_numbers(wish: Wish) -> None:
    """Flags alone take them."""
    if wish.is_flag:
        assert check_words({wish.name: True}) == {wish.name: True}
        return
    with pytest.raises(PlacerError, match=f"{wish.name} True is of type bool"):
        check_words({wish.name: True})


def test_the_request_document_has_every_wish() -> None:
    """Its keys are those of the table and of the schema; given links and own machines are part of
    the catalog, and spot is short for a market. Only a request that names a source of its data
    shows it, and the seconds of a copy where there is one.
    """
    read = {"data": "backblaze/us-west", "data_source": "none"}
    document = request_document(asked(read))
    assert {*document} - {*request_document(asked({}))} == {"data_source"}
    schema = schema_document("result")["$defs"]["Request"]
    of_rows = {key for wish in WISHES.values() for key in wish.keys}
    assert {name for name, wish in WISHES.items() if not wish.keys} == {
        "figures",
        "links",
        "own",
        "spot",
    }
    assert set(document) == {*NO_WISH, *of_rows} - {"copy_seconds"}
    assert set(document) == set(schema["properties"]) - {"copy_seconds"}
    assert set(schema["required"]) <= set(document)


@pytest.mark.parametrize("word", CHANGES)
def test_a_changed_world_reads_wishes_as_a_request_does(word: str) -> None:
    """`--set` of a wish gives the fields that its option gives."""
    wish = CHANGES[word]
    beside = BESIDE.get(wish.name, {})
    changed = apply(asked(beside), parse_changes([f"{word}={wish.example}"])).requirements
    wanted = asked({**beside, wish.name: True if wish.is_flag else wish.example}).requirements
    for field in wish.fields:
        assert getattr(changed, field) == getattr(wanted, field)


def test_amounts_are_multiplied_and_limits_taken_away() -> None:
    """`x2` doubles each amount, `none` goes back to nothing asked."""
    words = {"budget": "200usd", "samples": "1M", "deadline": "2h", "max_price_age": "20000d"}
    problem = asked(words)
    changes = ["budget=x2", "samples=x2", "deadline=x0.5", "max-price-age=none"]
    wish = apply(problem, parse_changes(changes)).requirements
    assert (wish.budget_usd, wish.samples, wish.deadline_s) == (400, 2_000_000, 3600)
    assert wish.oldest_price is None
    gone = apply(problem, parse_changes(["budget=none", "deadline=none"])).requirements
    assert (gone.budget_usd, gone.deadline_s) == (None, None)


RIGHT = """
import placer

result = placer.recommend(
    "roberta-xlm", budget="5/h", workers=(1, 4), min_throughput=400, gpu=["T4"], quota={"T4": 16},
    links={("a", "b"): "250Mb/s"}, samples_to_target={"local-sgd": 1.2}, tbs=(8192, 65536), top=3,
)
placer.estimate("roberta-xlm", "gcp/us-west1=2xT4", tbs=32768, quota={("*", "T4", "spot"): 16})
placer.sweep("roberta-xlm", ["budget=2/h,5/h"], regions=(1, 2), jobs=2)
placer.Advisor().explain("roberta-xlm", deadline=3600, samples=10_000_000)
placer.replan("plan.json", "run.jsonl", gap=0.01)
"""
WRONG = [
    'placer.recommend("m", bugdet="5/h")',
    'placer.recommend("m", budget=5)',
    'placer.recommend("m", workers=(1, 2, 3))',
    'placer.recommend("m", top="3")',
    'placer.pareto("m", gpu=[4])',
    'placer.estimate("m", "g", budget="5/h")',
    'placer.simulate("m", "g", rounds="3")',
    'placer.whatif("m", set=4)',
    'placer.sweep("m", "budget=1/h", overlap="no")',
    'placer.robust("m", max_carbon=500)',
    'placer.replan("p", "r", budget="5/h")',
    'placer.Advisor().recommend("m", quota={"T4": "16"})',
]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_type_checker_knows_every_word(tmp_path: Path) -> None:
    """Right calls pass under mypy --strict; each wrong word or type is an error in its line."""
    path = tmp_path / "calls.py"
    path.write_text("\n".join([RIGHT.strip(), *WRONG, ""]), encoding="utf-8")
    config = tmp_path / "mypy.ini"
    config.write_text(
        "[mypy]\nstrict = true\nfollow_imports = silent\nignore_missing_imports = true\n"
        # no word has a type of theirs, and to read them took most of the time
        "[mypy-click.*,filelock.*,networkx.*,numpy.*,pandas.*,rich.*,yaml.*]\n"
        "follow_imports = skip\nfollow_imports_for_stubs = true\n"
    )
    out, err, _ = mypy.api.run(
        ["--config-file", str(config), "--cache-dir", str(tmp_path), str(path)]
    )
    assert not err
    first = RIGHT.strip().count("\n") + 2
    lines = {int(line) for line in re.findall(r"calls\.py:(\d+): error", out)}
    assert lines == set(range(first, first + len(WRONG))), out
