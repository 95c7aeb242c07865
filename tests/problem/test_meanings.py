"""Words of neighbouring tools: each is answered with the word that placer has for it."""

import pytest

import placer
from placer.cli import COMMANDS
from placer.cli.ask import recommend
from placer.cli.meanings import COMMANDS as OTHERS
from placer.cli.meanings import STARTS_NOTHING, unknown_command
from placer.errors import PlacerError
from placer.problem.words.changes import parse_changes
from placer.problem.words.meanings import MEANT, OPTIONS, meant
from placer.problem.words.wishes import WISHES

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


@pytest.mark.parametrize(
    ("name", "tip"),
    [
        ("plan", "placer recommend"),
        ("optimize", "placer recommend"),
        ("price", "placer offers"),
        ("show-gpus", "placer offers"),
        ("show_gpus", "placer offers"),
        ("cost", "placer estimate"),
        ("replay", "placer capacity replay"),
        ("simulate", "placer estimate --simulate"),
        ("compare", "placer estimate"),
        ("init", "placer config init"),
        ("completion", "placer --completion"),
        ("deploy", "placer export"),
        ("launch", "placer export"),
        ("up", "placer export"),
        ("down", "the tool that started them"),
        ("status", "placer whatif --observed"),
        ("Recommend", "write it as recommend"),
        ("recomend", "'recommend'"),
    ],
)
def test_commands_of_other_tools(name: str, tip: str) -> None:
    """The tip names what to type, or says that placer starts nothing."""
    error = unknown_command(name, COMMANDS)
    assert error.exit_code == 2
    assert tip in error.hint
    assert (STARTS_NOTHING in error.hint) == (name in ("deploy", "launch", "up", "down", "status"))


@pytest.mark.parametrize(
    ("option", "own"),
    [
        ("--cost", "--budget"),
        ("--max-price", "--budget"),
        ("--region", "--in"),
        ("--zone", "--in"),
        ("--gpus", "--gpu"),
        ("--instance-type", "--gpu"),
        ("--use_spot", "--spot"),
        ("--batch-size", "--tbs"),
        ("--num-nodes", "--workers"),
        ("--budgt", None),
    ],
)
def test_options_of_other_tools(option: str, own: str | None) -> None:
    """By meaning; what is only misspelt is left to the nearest name."""
    assert meant(option, sorted(FLAGS)) == own


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
