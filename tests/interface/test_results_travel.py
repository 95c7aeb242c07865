"""Public results: one line each, small pickles, and errors that say what kind they are."""

import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import placer
from conftest import ROOT, completed
from placer.errors import unknown
from placer.records import replace

BOOK: dict[str, Any] = {"catalog": "erben-2023", "gpu": "T4"}
PLACED = "gcp/us-central1=4xT4:spot"


@pytest.fixture(scope="module")
def large() -> placer.Result:
    """The main job on the default book of five thousand offers."""
    return placer.recommend("roberta-xlm", budget="5/h", catalog="default", alternatives=False)


def answers() -> dict[str, Callable[[], Any]]:
    """A call for each public result."""
    return {
        "Frontier": lambda: placer.pareto("roberta-xlm", points=3, **BOOK),
        "Explanation": lambda: placer.explain("roberta-xlm", budget="0.05/h", **BOOK),
        "WhatIf": lambda: placer.whatif("roberta-xlm", set=["budget=1/h"], **BOOK),
        "Sweep": lambda: placer.sweep("roberta-xlm", ["budget=1/h,2/h"], **BOOK),
        "Estimate": lambda: placer.estimate("roberta-xlm", PLACED, catalog="erben-2023"),
        "Simulation": lambda: placer.simulate("roberta-xlm", PLACED, catalog="erben-2023"),
        "Catalog": lambda: placer.load_catalog("erben-2023"),
        "Advisor": lambda: placer.Advisor("erben-2023"),
        "PortfolioAnswer": lambda: placer.portfolio(
            [{"model": "roberta-xlm", "min_throughput": "200/s"}], catalog="erben-2023", quota=QUOTA
        ),
        "Replay": lambda: placer.replay(
            str(ROOT / "examples" / "capacity-trace.csv"),
            machines=4,
            work="4h",
            deadline="8h",
            gpu="H100",
            policy="span",
            offline=False,
        ),
    }


QUOTA = [{"place": "*", "gpu": "T4", "gpus": 4}]


@pytest.mark.parametrize("name", answers())
def test_a_result_is_one_line_and_a_small_pickle(name: str) -> None:
    """Its repr names the kind and the answer in 250 characters; its pickle means the same."""
    answer = answers()[name]()
    line = repr(answer)
    assert line.startswith(f"<{name}")
    assert len(line) <= 250
    assert "\n" not in line
    packed = pickle.dumps(answer)
    assert len(packed) < 100_000
    again = pickle.loads(packed)
    assert repr(again) == line
    if hasattr(answer, "to_dict"):
        assert again.to_dict() == answer.to_dict()


def test_the_line_of_a_result_says_the_answer(large: placer.Result) -> None:
    """Status, machines, exchange, speed, price and gap; without a placement that there is none."""
    assert large.placement is not None
    line = repr(large)
    assert line.startswith("<Result optimal: ")
    assert large.placement.groups[0].spec in line
    assert "samples/s, $" in line
    assert "gap" in line
    nothing = placer.recommend("roberta-xlm", budget="0.01/h", **BOOK)
    assert repr(nothing).startswith("<Result infeasible: no placement")


def test_a_result_is_read_in_another_process(large: placer.Result, tmp_path: Path) -> None:
    """Under 200 KB with the whole market in it (4.9 MB before): no book is read again there."""
    packed = pickle.dumps(large)
    assert len(packed) < 200_000
    (tmp_path / "result").write_bytes(packed)
    code = (
        "import pickle, pathlib\n"
        "result = pickle.loads(pathlib.Path('result').read_bytes())\n"
        "print(result, len(result.problem.catalog.offers), len(result.problem.pools))"
    )
    done = completed(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PLACER_HOME": str(tmp_path)},
        check=True,
    )
    problem = large.problem
    counts = f"{len(problem.catalog.offers)} {len(problem.pools)}"
    assert done.stdout.strip() == f"{large!r} {counts}"


@pytest.mark.parametrize(
    ("call", "kind", "code"),
    [
        (lambda: placer.recommend("roberta-xml"), placer.BadInputError, 2),
        (lambda: placer.recommend("roberta-xlm", budget="5/q"), placer.BadInputError, 2),
        (
            lambda: placer.recommend("roberta-xlm", max_price_age="1d", catalog="erben-2023"),
            placer.DataError,
            5,
        ),
        (
            lambda: placer.recommend("roberta-xlm", budget="0.01/h", **BOOK).to_manifest(),
            placer.InfeasibleError,
            3,
        ),
    ],
)
def test_an_error_says_what_kind_it_is(
    call: Callable[[], Any], kind: type[placer.PlacerError], code: int
) -> None:
    """By its class, which is a PlacerError; exit code and pickle agree."""
    with pytest.raises(placer.PlacerError) as caught:
        call()
    error = caught.value
    assert (type(error), error.exit_code) == (kind, code)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.to_dict()) == (kind, str(error), error.to_dict())


def test_an_error_names_the_word_that_is_wrong() -> None:
    """As Python and JSON have it; where no word is to blame the field is empty."""
    with pytest.raises(placer.BadInputError) as caught:
        placer.recommend("roberta-xlm", min_throughput="fast", catalog="erben-2023")
    assert (caught.value.field, caught.value.value) == ("min_throughput", "fast")
    error = unknown("model", "roberta-xml", ["roberta-xlm"])
    assert (error.field, error.value, error.to_dict()["error"]["type"]) == (
        "model",
        "roberta-xml",
        "bad-input",
    )
    plain = placer.PlacerError("nothing", exit_code=6)
    assert (type(plain), plain.field, "field" in plain.to_dict()["error"]) == (
        placer.PlacerError,
        "",
        False,
    )


def test_a_contradiction_can_be_pickled() -> None:
    """It carries its question, which explain takes apart."""
    with pytest.raises(placer.BadInputError) as caught:
        placer.recommend("roberta-xlm", data="gcp/us-central1=1M:stay", regions=2, **BOOK)
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)


def test_the_headline_ends_with_the_gap(large: placer.Result) -> None:
    """In percent of the value: a bound of 1.02 times the speed is 2 % away."""
    assert large.value is not None
    assert replace(large, bound=1.02 * large.value).headline.endswith(", gap 2 %")
