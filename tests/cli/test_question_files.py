"""``placer recommend -f FILE``: configurations of training software as questions."""

from pathlib import Path

import pytest

from conftest import Run
from placer.errors import PlacerError
from placer.interface.question_file import read_question

FILES = {
    # 4 sequences x 2 accumulations on one GPU: a batch of 8
    "axolotl.yaml": (
        "base_model: Qwen/Qwen2.5-7B\nadapter: lora\nlora_r: 16\nsequence_len: 2048\n"
        "micro_batch_size: 4\ngradient_accumulation_steps: 2\nbf16: auto\n"
        "gradient_checkpointing: true\ndeepspeed: deepspeed_configs/zero2.json\n",
        "model=Qwen/Qwen2.5-7B lora=16 seq_len=2048 microbatch=4 tbs=8 precision=bf16 "
        "checkpointing=full sharding=zero-2",
    ),
    "ds_config.json": (
        '{"train_batch_size": 512, "train_micro_batch_size_per_gpu": "auto",'
        ' "zero_optimization": {"stage": 3}, "bf16": {"enabled": true}}',
        "tbs=512 sharding=zero-3 precision=bf16",
    ),
    "accelerate.yaml": (
        "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nmixed_precision: bf16\n"
        "fsdp_config:\n  fsdp_sharding_strategy: SHARD_GRAD_OP\n"
        "  fsdp_activation_checkpointing: true\n",
        "precision=bf16 sharding=zero-2 checkpointing=full",
    ),
    "titan.toml": (
        '[model]\nname = "llama3"\nflavor = "8B"\n[training]\nlocal_batch_size = 1\n'
        "seq_len = 8192\nglobal_batch_size = 64\n[parallelism]\n"
        "data_parallel_shard_degree = -1\ntensor_parallel_degree = 2\n"
        '[activation_checkpoint]\nmode = "selective"\n',
        "model=llama-3.1-8b seq_len=8192 microbatch=1 tbs=64 tp=2 sharding=zero-3 "
        "checkpointing=selective",
    ),
    "sky.yaml": (
        "resources:\n  infra: aws/us-east-1/us-east-1a\n  accelerators: {A100-80GB: 8}\n"
        "  use_spot: true\nrun: |\n  torchrun train.py --model meta-llama/Llama-3.1-8B \\\n",
        "model=meta-llama/Llama-3.1-8B gpu=A100-80:8 market=spot places=aws/us-east-1",
    ),
    "sky_alternatives.yaml": (
        "resources:\n  ordered: [{accelerators: L4, use_spot: true}, {accelerators: T4}]\n"
        "run: python train.py --model_name_or_path resnet50\n",
        "model=resnet50 gpu=L4,T4",
    ),
    # An A100 of SkyPilot is the one of 40 GB; alternatives are asked together
    "sky_any.yaml": (
        "resources:\n  use_spot: true\n  any_of:\n"
        "    - {infra: aws/us-east-1, accelerators: A100:8}\n"
        "    - {infra: gcp, accelerators: [H100:8, 'L4:8'], use_spot: true}\n"
        "envs: {MODEL_ID: roberta-xlm}\nrun: python train.py --model $MODEL_ID\n",
        "model=roberta-xlm gpu=A100-40:8,H100:8,L4:8 market=spot places=aws/us-east-1,gcp",
    ),
    "sky_set.yaml": (
        "resources:\n  accelerators: {L4:1, A10G:1}\n  use_spot: true\n"
        "run: python train.py --model=resnet50\n",
        "model=resnet50 gpu=L4:1,A10G:1 market=spot",
    ),
    # Two accumulations of 8 are 16 on one GPU; stage 0 divides nothing
    "ds_zero.json": (
        '{"fp16": {"enabled": true}, "zero_optimization": {"stage": 0},'
        ' "train_micro_batch_size_per_gpu": 8, "gradient_accumulation_steps": 2}',
        "tbs=16 microbatch=8 sharding=none precision=fp16",
    ),
    "accelerate_hybrid.yaml": (
        "distributed_type: FSDP\nfsdp_config: {fsdp_sharding_strategy: HYBRID_SHARD}\n",
        "sharding=hybrid",
    ),
    "accelerate_stage.yaml": (
        "distributed_type: DEEPSPEED\ndeepspeed_config: {zero_stage: 2}\nmixed_precision: 'no'\n",
        "sharding=zero-2",
    ),
    "accelerate_plain.yaml": (
        "distributed_type: MULTI_GPU\nmixed_precision: fp16\n",
        "sharding=none precision=fp16",
    ),
    # FSDP 2 that keeps what it gathered; 64 samples are all of one GPU's step
    "axolotl_fsdp.yaml": (
        "base_model: Qwen/Qwen2.5-7B\nsequence_len: 2048\nmicro_batch_size: 2\nbatch_size: 64\n"
        "tensor_parallel_size: 2\nfsdp_config: {reshard_after_forward: false}\n",
        "model=Qwen/Qwen2.5-7B seq_len=2048 microbatch=2 tbs=64 tp=2 sharding=zero-2",
    ),
    "titan_old.toml": (
        '[model]\nname = "llama3"\nflavor = "70B"\n[training]\nbatch_size = 8\nseq_len = 8192\n'
        "tensor_parallel_degree = 8\n[parallelism]\ndata_parallel_replicate_degree = 2\n",
        "model=llama-3.1-70b seq_len=8192 microbatch=8 tp=8 sharding=hybrid",
    ),
    # Eight bits are said as adapters on sixteen, which need more
    "llama_factory8.yaml": (
        "model_name_or_path: Qwen/Qwen2.5-7B\nfinetuning_type: lora\nquantization_bit: 8\n"
        "lora_rank: 64\nper_device_train_batch_size: 2\npure_bf16: true\n",
        "model=Qwen/Qwen2.5-7B lora=64 microbatch=2 tbs=2 precision=bf16",
    ),
    # QLoRA by 4 bits, of the rank that LLaMA-Factory takes where none is said
    "llama_factory.yaml": (
        "model_name_or_path: Qwen/Qwen2.5-7B\nfinetuning_type: lora\nquantization_bit: 4\n"
        "cutoff_len: 2048\nper_device_train_batch_size: 1\ngradient_accumulation_steps: 8\n"
        "bf16: true\ndeepspeed: examples/deepspeed/ds_z3_config.json\n",
        "model=Qwen/Qwen2.5-7B qlora=8 seq_len=2048 microbatch=1 tbs=8 precision=bf16 "
        "sharding=zero-3",
    ),
    "trl.yml": (
        "model_name_or_path: Qwen/Qwen2.5-7B\nuse_peft: true\nlora_r: 32\nmax_length: 1024\n"
        "per_device_train_batch_size: 2\n",
        "model=Qwen/Qwen2.5-7B lora=32 seq_len=1024 microbatch=2 tbs=2",
    ),
    # 2 to 4 cards say no number
    "dstack_list.yml": (
        "type: task\nenv: [HF_TOKEN, MODEL_ID=Qwen/Qwen2.5-7B]\nregions: [us-east-1]\n"
        "backends: [aws]\nresources:\n  gpu: {name: [A100, H100], memory: 80GB, count: 8}\n",
        "model=Qwen/Qwen2.5-7B gpu=A100-80:8,H100:8 places=aws/us-east-1",
    ),
    "dstack_fleet.yml": (
        "type: fleet\nnodes: 4\nresources:\n  gpu: ['nvidia:A100:40GB:2..4', 'L4:1']\n",
        "gpu=A100-40,L4:1",
    ),
    "dstack.yml": (
        "type: task\nenv:\n  MODEL_ID: Qwen/Qwen2.5-7B\ncommands:\n  - python train.py\n"
        "resources:\n  gpu: H100:80GB:8\nspot_policy: spot\n",
        "model=Qwen/Qwen2.5-7B gpu=H100:8 market=spot",
    ),
}
"""Small configurations in the real formats, and what they say of a question."""


@pytest.mark.parametrize("name", FILES)
def test_configurations_are_read_as_words(tmp_path: Path, name: str) -> None:
    """Each word as ``recommend`` has it; what software fills in itself (auto) is no word."""
    text, words = FILES[name]
    (tmp_path / name).write_text(text, encoding="utf-8")
    expected = dict(word.split("=") for word in words.split())
    assert read_question(str(tmp_path / name))[1] == expected


def test_a_file_without_an_end_of_depth_is_refused(tmp_path: Path) -> None:
    """How deep Python may go depends on its caller, so that the message is not frozen."""
    (tmp_path / "axolotl.yaml").write_text("base_model: " + "[" * 20_000, encoding="utf-8")
    with pytest.raises(PlacerError, match=r"cannot be read: .*recursion"):
        read_question(str(tmp_path / "axolotl.yaml"))


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
