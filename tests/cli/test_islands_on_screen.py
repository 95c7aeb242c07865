"""What a user of a language model reads in each verb: plans inside workers, software, tokens."""

import json
from pathlib import Path

import pytest

from conftest import Run

BOOK = ("--figures", "book")
MODEL = ("--model", "llama-3.1-8b")
EAST = "aws/us-east-1"
ISLAND = f"{EAST}=2x4xH100:8:spot+zero-3+mb=1"


def test_recommend_says_plan_software_days_and_dollars(run: Run) -> None:
    """Ten billion tokens at 60 to 130 k tokens/s are about one to two days."""
    words = (*MODEL, "--tokens", "10B", "--budget", "30/h", "--quota", "8")
    done = run("recommend", *words, "-v", columns=120)
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    for part in (
        "inside a worker ",
        "sharding zero-",
        "tokens/s (",
        "per billion tokens",
        "time in all",
        "cost in all",
    ):
        assert part in text, part
    assert "samples/s" not in text


def test_a_deadline_asks_for_tokens_a_second(run: Run) -> None:
    """Ten billion tokens in a day less ten minutes of starting are 116,550 tokens/s, rounded up to
    whole sequences.
    """
    words = (*MODEL, "--tokens", "10B", "--deadline", "1d", "--objective", "cost", "--gpu", "H100")
    done = run("recommend", *words, "--quota", "64", columns=200)
    assert done.returncode == 0, done.stderr
    assert "(at least 116,550 tokens/s)" in " ".join(done.stdout.split())


def test_estimate_by_hand_with_an_island(run: Run) -> None:
    """Two islands of four machines, the plan as written; brackets mean the same."""
    one = run("estimate", *MODEL, "--workers", ISLAND, columns=120)
    assert one.returncode == 0, one.stderr
    assert "2 x (4 machines of 8 x H100) spot in aws/us-east-1" in " ".join(one.stdout.split())
    assert "sharding zero-3" in " ".join(one.stdout.split())
    assert "by nccl" in " ".join(one.stdout.split())
    words = f"{EAST}=2x(4xH100:8):spot+zero-3+mb=1"
    assert run("estimate", *MODEL, "--workers", words, columns=120).stdout == one.stdout


def test_an_estimate_document_has_islands(run: Run) -> None:
    """Machines and plan of each group, and the software."""
    done = run("estimate", *MODEL, "--workers", ISLAND, "--json")
    document = json.loads(done.stdout)
    (group,) = document["placement"]["workers"]
    assert (group["count"], group["machines"]) == (2, 4)
    assert group["inner"]["sharding"] == "zero-3"
    assert document["placement"]["transport"] == "nccl"


def test_a_comparison_puts_one_island_beside_several(run: Run) -> None:
    """The same machines: nearly the same speed, the same price."""
    done = run(
        *("estimate", *MODEL, "--workers", ISLAND),
        *("--workers", f"{EAST}=8xH100:8:spot+zero-3+mb=1", "--json"),
    )
    assert done.returncode == 0, done.stderr
    one, other = (
        row["estimate"]["tokens_per_second"]["value"]
        for row in json.loads(done.stdout)["placements"]
    )
    assert one == pytest.approx(other, rel=0.05)


def test_explain_speaks_of_tokens_and_plans(run: Run) -> None:
    """What binds, and why not an island of four machines."""
    words = (*MODEL, "--gpu", "H100", "--budget", "25/h", "--quota", "16")
    done = run("explain", *words, "--why-not", f"{EAST}=1x2xH100:8", columns=120)
    assert done.returncode == 0, done.stderr
    assert "What binds" in done.stdout
    assert "Why not aws/us-east-1=1x2xH100:8" in " ".join(done.stdout.split())
    assert "samples/s" not in done.stdout


def test_explain_says_why_nothing_fits(run: Run) -> None:
    """A dollar an hour rents nothing that holds 8 B parameters."""
    done = run("explain", *MODEL, "--gpu", "H100", "--budget", "1/h", "--quota", "8", columns=120)
    assert done.returncode == 3
    assert "Wishes that contradict each other" in done.stdout
    assert "tokens/s" in done.stdout


def test_whatif_another_transport(run: Run) -> None:
    """Hivemind needs 7 to 10 s for each GB of 16 GB: one machine is best again."""
    words = (*MODEL, "--gpu", "H100", "--budget", "25/h", "--quota", "16", *BOOK)
    done = run("whatif", *words, "--set", "transport=hivemind", columns=150)
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    assert "transport=hivemind" in text
    assert "the transport nccl is not hivemind" in text
    assert "tokens/s" in text


def test_whatif_another_plan_gives_up_the_old_one(run: Run) -> None:
    """The plan that is kept breaks the wish, and the new answer follows it."""
    words = (*MODEL, "--gpu", "H100", "--budget", "12/h", "--quota", "8", *BOOK)
    done = run("whatif", *words, "--set", "tp=8", columns=150)
    assert done.returncode == 0, done.stderr
    assert "does not follow --tp 8" in " ".join(done.stdout.split())


def test_a_longer_sequence_may_need_another_plan(run: Run) -> None:
    """The old plan does not fit any more: it is said, not raised."""
    words = (*MODEL, "--gpu", "H200", "--budget", "12/h", "--quota", "8", *BOOK)
    done = run("whatif", *words, "--set", "seq-len=65536", columns=150)
    assert done.returncode == 0, done.stderr
    assert "but breaks" in " ".join(done.stdout.split())


def test_simulate_in_tokens(run: Run) -> None:
    """Without jitter the replay of an island is the closed form."""
    done = run("estimate", "--simulate", *MODEL, "--workers", ISLAND)
    assert done.returncode == 0, done.stderr
    assert "0 % against the closed form" in " ".join(done.stdout.split())
    assert done.stdout.count("tokens/s") == 2
    document = json.loads(
        run("estimate", "--simulate", *MODEL, "--workers", ISLAND, "--json").stdout
    )
    assert document["tokens_per_sample"] == 8192


def test_pareto_in_tokens(run: Run, tmp_path: Path) -> None:
    """Table and sentences; the document as before."""
    table = tmp_path / "points.csv"
    words = (*MODEL, "--gpu", "H100", "--budget", "30/h", "--quota", "8", "--points", "4")
    done = run("pareto", *words, "--csv", str(table), columns=150)
    assert done.returncode == 0, done.stderr
    assert "per billion tokens" in " ".join(done.stdout.split())
    assert "samples/s" not in done.stdout


def test_sweep_in_tokens(run: Run) -> None:
    """Budgets on H100 alone."""
    words = (*MODEL, "--gpu", "H100", "--quota", "8", "--over", "budget=10/h..30/h")
    done = run("whatif", *words, columns=150)
    assert done.returncode == 0, done.stderr
    assert "USD/Gtok" in done.stdout


def test_a_plan_of_islands_is_saved_exported_and_refused_where_it_cannot_run(
    run: Run, tmp_path: Path
) -> None:
    """Islands go to torchrun; hivemind and a rehearsal say in one line that they take none."""
    plan = tmp_path / "plan.json"
    words = (*MODEL, "--gpu", "L4", "--in", "gcp/us-*", "--budget", "30/h", "--quota", "32")
    done = run("recommend", *words, "--machines-per-island", "2..4", "--manifest", str(plan))
    assert done.returncode == 0, done.stderr
    assert run("validate", str(plan)).returncode == 0
    out = tmp_path / "launch"
    assert run("export", str(plan), "--to", "torchrun", "--dir", str(out)).returncode == 0
    refused = (
        run("export", str(plan), "--to", "hivemind", "--dir", str(tmp_path / "h"), columns=200),
        run("run", "--rehearse", str(plan), columns=200),
    )
    for done in refused:
        assert done.returncode == 2
        assert len(done.stderr.strip().splitlines()) <= 2
        assert "island" in done.stderr
