"""``placer recommend -f FILE``: configurations of training software as questions."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import Run
from placer.interface.question_file import read_question

FILES = {
    # 4 sequences x 2 accumulations on one GPU: a batch of 8
    "axolotl.yaml": (
        "base_model: Qwen/Qwen2.5-7B\nadapter: lora\nlora_r: 16\nsequence_len: 2048\n"
        "micro_batch_size: 4\ngradient_accumulation_steps: 2\nbf16: auto\n"
        "gradient_checkpointing: true\ndeepspeed: deepspeed_configs/zero2.json\n",
        {
            "model": "Qwen/Qwen2.5-7B",
            "lora": "16",
            "seq_len": "2048",
            "microbatch": "4",
            "tbs": "8",
            "precision": "bf16",
            "checkpointing": "full",
            "sharding": "zero-2",
        },
    ),
    "ds_config.json": (
        '{"train_batch_size": 512, "train_micro_batch_size_per_gpu": "auto",'
        ' "zero_optimization": {"stage": 3}, "bf16": {"enabled": true}}',
        {"tbs": "512", "sharding": "zero-3", "precision": "bf16"},
    ),
    "accelerate.yaml": (
        "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nmixed_precision: bf16\n"
        "fsdp_config:\n  fsdp_sharding_strategy: SHARD_GRAD_OP\n"
        "  fsdp_activation_checkpointing: true\n",
        {"precision": "bf16", "sharding": "zero-2", "checkpointing": "full"},
    ),
    "titan.toml": (
        '[model]\nname = "llama3"\nflavor = "8B"\n[training]\nlocal_batch_size = 1\n'
        "seq_len = 8192\nglobal_batch_size = 64\n[parallelism]\n"
        "data_parallel_shard_degree = -1\ntensor_parallel_degree = 2\n"
        '[activation_checkpoint]\nmode = "selective"\n',
        {
            "model": "llama-3.1-8b",
            "seq_len": "8192",
            "microbatch": "1",
            "tbs": "64",
            "tp": "2",
            "sharding": "zero-3",
            "checkpointing": "selective",
        },
    ),
    "sky.yaml": (
        "resources:\n  infra: aws/us-east-1/us-east-1a\n  accelerators: {A100-80GB: 8}\n"
        "  use_spot: true\nrun: |\n  torchrun train.py --model meta-llama/Llama-3.1-8B \\\n",
        {
            "model": "meta-llama/Llama-3.1-8B",
            "gpu": "A100-80:8",
            "market": "spot",
            "places": "aws/us-east-1",
        },
    ),
    # QLoRA by 4 bits, of the rank that LLaMA-Factory takes where none is said
    "llama_factory.yaml": (
        "model_name_or_path: Qwen/Qwen2.5-7B\nfinetuning_type: lora\nquantization_bit: 4\n"
        "cutoff_len: 2048\nper_device_train_batch_size: 1\ngradient_accumulation_steps: 8\n"
        "bf16: true\ndeepspeed: examples/deepspeed/ds_z3_config.json\n",
        {
            "model": "Qwen/Qwen2.5-7B",
            "qlora": "8",
            "seq_len": "2048",
            "microbatch": "1",
            "tbs": "8",
            "precision": "bf16",
            "sharding": "zero-3",
        },
    ),
    "trl.yml": (
        "model_name_or_path: Qwen/Qwen2.5-7B\nuse_peft: true\nlora_r: 32\nmax_length: 1024\n"
        "per_device_train_batch_size: 2\n",
        {
            "model": "Qwen/Qwen2.5-7B",
            "lora": "32",
            "seq_len": "1024",
            "microbatch": "2",
            "tbs": "2",
        },
    ),
    "dstack.yml": (
        "type: task\nenv:\n  MODEL_ID: Qwen/Qwen2.5-7B\ncommands:\n  - python train.py\n"
        "resources:\n  gpu: H100:80GB:8\nspot_policy: spot\n",
        {"model": "Qwen/Qwen2.5-7B", "gpu": "H100:8", "market": "spot"},
    ),
}
"""Small configurations in the real formats, and what they say of a question."""


@pytest.mark.parametrize("name", FILES)
def test_configurations_are_read_as_words(tmp_path: Path, name: str) -> None:
    """Each word as ``recommend`` has it; what software fills in itself (auto) is no word."""
    text, words = FILES[name]
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert read_question(str(tmp_path / name))[1] == words


def test_flags_win_over_the_file(run: Run, tmp_path: Path) -> None:
    """``--seq-len`` replaces that of the file, whose other words hold and are printed."""
    (tmp_path / "axolotl.yaml").write_text(FILES["axolotl.yaml"][0], encoding="utf-8")
    words = ("-f", "axolotl.yaml", "--seq-len", "1024", "--own", "pc=1xA100-80:1@Berlin")
    done = run("recommend", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "a configuration of axolotl (tbs is that of one GPU: " in done.stderr
    assert "--model Qwen/" in done.stderr
    assert "8 x 1,024 tokens" in done.stdout
    assert "LoRA rank 16" in done.stdout


def test_a_configuration_in_place_of_a_model_is_named(run: Run, tmp_path: Path) -> None:
    """The file is not broken: it is another kind of file."""
    (tmp_path / "axolotl.yaml").write_text(FILES["axolotl.yaml"][0], encoding="utf-8")
    done = run("recommend", "--model", "./axolotl.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert "-f ./axolotl.yaml" in done.stderr
