"""What a user of a language model reads in each verb: plans inside workers, software, tokens."""

from pathlib import Path

from conftest import Run

BOOK = ("--figures", "book")
MODEL = ("--model", "llama-3.1-8b")


def test_whatif_another_transport(run: Run) -> None:
    """Hivemind needs 7 to 10 s for each GB of 16 GB: one machine is best again."""
    words = (*MODEL, "--gpu", "H100", "--budget", "25/h", "--quota", "16", *BOOK)
    done = run("whatif", *words, "--set", "transport=hivemind", columns=150)
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    assert "transport=hivemind" in text
    assert "the transport nccl is not hivemind" in text
    assert "tokens/s" in text


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
