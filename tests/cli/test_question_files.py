"""``placer recommend -f FILE``: configurations of training software as questions."""

from pathlib import Path

import pytest

from conftest import Run
from placer.errors import PlacerError
from placer.interface.question_file import read_question

AXOLOTL = (
    "base_model: Qwen/Qwen2.5-7B\nadapter: lora\nlora_r: 16\nsequence_len: 2048\n"
    "micro_batch_size: 4\ngradient_accumulation_steps: 2\nbf16: auto\n"
    "gradient_checkpointing: true\ndeepspeed: deepspeed_configs/zero2.json\n"
)
"""4 sequences x 2 accumulations on one GPU: a batch of 8."""


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("base_model: " + "[" * 20_000, "recursion"),
        ("base_model: a\nbase_model: b\n", "the key 'base_model' appears twice"),
    ],
    ids=["deep", "twice"],
)
def test_a_file_that_is_no_plain_yaml_is_refused(tmp_path: Path, text: str, says: str) -> None:
    """A key that stands twice, and depth without end. How deep Python may go depends on its caller,
    so that the message is not frozen.
    """
    (tmp_path / "axolotl.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(PlacerError, match=f"cannot be read: .*{says}"):
        read_question(str(tmp_path / "axolotl.yaml"))


def test_flags_win_over_the_file(run: Run, tmp_path: Path) -> None:
    """``--seq-len`` replaces that of the file, whose other words hold and are printed."""
    (tmp_path / "axolotl.yaml").write_text(AXOLOTL, encoding="utf-8")
    words = ("-f", "axolotl.yaml", "--seq-len", "1024", "--own", "pc=1xA100-80:1@Berlin")
    done = run("recommend", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "a configuration of axolotl (tbs is that of one GPU: " in done.stderr
    assert "--model Qwen/" in done.stderr
    assert "8 x 1,024 tokens" in done.stdout
    assert "LoRA rank 16" in done.stdout


def test_a_configuration_in_place_of_a_model_is_named(run: Run, tmp_path: Path) -> None:
    """The file is not broken: it is another kind of file."""
    (tmp_path / "axolotl.yaml").write_text(AXOLOTL, encoding="utf-8")
    done = run("recommend", "--model", "./axolotl.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert "-f ./axolotl.yaml" in done.stderr
