"""Workloads from Hugging Face configurations: sizes of the real models, nothing downloaded, no code
of others.
"""

import json
import math
import os
import re
import socket
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

torch = pytest.importorskip("torch")

from conftest import ROOT, completed  # noqa: E402
from placer.errors import PlacerError  # noqa: E402
from placer.interface.options import model_of  # noqa: E402
from placer.market.books.book_reader import load_catalog  # noqa: E402
from placer.profiler.estimate.counting import count  # noqa: E402
from placer.profiler.huggingface import counted  # noqa: E402
from placer.profiler.huggingface.workload import from_config  # noqa: E402
from placer.profiler.workload import gradient_sizes  # noqa: E402
from placer.workload.profile import load_profile  # noqa: E402

torch.set_num_threads(1)
META, CPU = torch.device("meta"), torch.device("cpu")
ROBERTA: dict[str, Any] = yaml.safe_load("""
{model_type: roberta, architectures: [RobertaForMaskedLM], vocab_size: 50265, hidden_size: 768,
 num_hidden_layers: 12, num_attention_heads: 12, intermediate_size: 3072,
 max_position_embeddings: 514, type_vocab_size: 1}
""")
LARGE: dict[str, Any] = yaml.safe_load("""
{hidden_size: 1024, num_hidden_layers: 24, num_attention_heads: 16, intermediate_size: 4096}
""")
TINY: dict[str, Any] = yaml.safe_load("""
{hidden_size: 32, num_hidden_layers: 2, num_attention_heads: 2, intermediate_size: 64,
 vocab_size: 100}
""")
needs_transformers = pytest.mark.skipif(
    find_spec("transformers") is None, reason="needs transformers"
)


def write(folder: Path, name: str = "config.json", **config: Any) -> Path:
    """A configuration in a file of its own."""
    file = folder / name
    file.write_text(json.dumps(config), encoding="utf-8")
    return file


@needs_transformers
@pytest.mark.parametrize(
    ("profile", "changes"),
    [
        ("roberta-base", {}),
        ("roberta-large", LARGE),
        ("roberta-xlm", {**LARGE, "model_type": "xlm-roberta", "vocab_size": 250002}),
    ],
)
def test_shipped_encoders_are_those_of_transformers(
    tmp_path: Path, profile: str, changes: dict[str, Any]
) -> None:
    """Parameters, tensors (tied output once) and FP32 bytes are those of the shipped profile; one
    step runs on the meta device.
    """
    with META:
        workload = from_config(write(tmp_path, **{**ROBERTA, "architectures": None, **changes}))
    sizes, shipped = gradient_sizes(workload), load_profile(profile)
    assert (sizes.parameters, sizes.trainable, sizes.tensors) == (
        shipped.parameters,
        shipped.parameters,
        shipped.tensors,
    )
    assert sizes.bytes_fp32 == shipped.gradient_bytes_fp32
    assert workload.title.endswith("masked language model, 128 tokens")
    assert workload.name == tmp_path.name


SMALL: dict[str, dict[str, Any]] = yaml.safe_load("""
RobertaForMaskedLM: {model_type: roberta, type_vocab_size: 1, dtype: float16}
BertForSequenceClassification: {model_type: bert}
BertForTokenClassification: {model_type: bert}
GPT2LMHeadModel: {model_type: gpt2, n_embd: 32, n_layer: 2, n_head: 2, vocab_size: 100,
  n_positions: 64}
LlamaForCausalLM: {model_type: llama, num_key_value_heads: 2}
T5ForConditionalGeneration: {model_type: t5, d_model: 32, d_kv: 16, d_ff: 64, num_layers: 2,
  num_heads: 2, vocab_size: 100}
ViTForImageClassification: {model_type: vit, image_size: 32, patch_size: 8}
ResNetForImageClassification: {model_type: resnet, hidden_sizes: [8, 16], depths: [1, 1],
  embedding_size: 8}
WhisperForConditionalGeneration: {model_type: whisper, d_model: 32, encoder_layers: 2,
  decoder_layers: 2, encoder_attention_heads: 2, decoder_attention_heads: 2, encoder_ffn_dim: 32,
  decoder_ffn_dim: 32, vocab_size: 100, max_source_positions: 20, pad_token_id: 0,
  decoder_start_token_id: 1, bos_token_id: 1, eos_token_id: 2}
""")
SMALL |= {
    kind: {**config, **TINY}
    for kind, config in SMALL.items()
    if kind.startswith(("Roberta", "Bert", "Llama", "ViT"))
}


@needs_transformers
@pytest.mark.parametrize("kind", SMALL)
def test_each_task_learns_a_batch(tmp_path: Path, kind: str) -> None:
    """The class that is named is made, in FP32 whatever the file says, and its loss falls in four
    steps.
    """
    torch.manual_seed(0)
    workload = from_config(write(tmp_path, **{**SMALL[kind], "architectures": [kind]}))
    assert type(workload.module).__name__ == kind
    assert {p.dtype for p in workload.module.parameters()} == {torch.float32}
    assert workload.family == ("cnn" if kind.startswith("ResNet") else "transformer")
    optimizer = torch.optim.SGD(workload.module.parameters(), lr=0.05)
    batch = workload.batch(3, CPU)
    workload.module.eval()
    losses = []
    for _ in range(4):
        optimizer.zero_grad()
        loss: Any = workload.loss(workload.module, batch)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert math.isfinite(losses[0])
    assert losses[-1] < losses[0]


@needs_transformers
@pytest.mark.parametrize(
    ("kind", "positions", "usual"),
    [("RobertaForMaskedLM", 40, 38), ("BertForSequenceClassification", 40, 40), ("", 1024, 128)],
)
def test_texts_are_no_longer_than_a_model_takes(
    tmp_path: Path, kind: str, positions: int, usual: int
) -> None:
    """RoBERTa counts positions from 2. Without --tokens a text has 128, or as many as there are."""
    config = SMALL[kind or "BertForSequenceClassification"]
    file = write(tmp_path, **config, max_position_embeddings=positions)
    most = positions - 2 * kind.startswith("Roberta")
    for asked, tokens in ((None, usual), (1, 1), (most, most)):
        with META:
            found = from_config(file, asked)
        assert found.batch(3, META)["input_ids"].shape == (3, tokens)
    for asked in (0, most + 1):
        with pytest.raises(PlacerError, match=f"sequences of {asked:,} tokens") as caught:
            from_config(file, asked)
        assert caught.value.hint == f"the model takes 1 to {most:,}"


@needs_transformers
def test_nothing_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No connection is opened, even where a configuration names pretrained parts."""

    def refuse(*_: object) -> None:
        raise AssertionError("a connection was tried")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    assert (
        from_config(
            write(tmp_path, **{**SMALL["RobertaForMaskedLM"], "_name_or_path": "roberta-base"})
        ).family
        == "transformer"
    )


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"hidden_size": 3}, "names no model_type"),
        ({"tokenizer_class": "LlamaTokenizer"}, "is the configuration of a tokenizer"),
        ({"eos_token_id": 2, "temperature": 0.6}, "is the configuration of generation"),
        ({"weight_map": {}, "metadata": {}}, "is the index of files of weights"),
        (
            {"model_type": "roberta", "auto_map": {"AutoConfig": "there.Config"}},
            "needs code of its own (auto_map)",
        ),
        (
            {"model_type": "llava", "text_config": {"attn_implementation": "someone/kernel"}},
            "needs code of its own (attn_implementation)",
        ),
    ],
)
def test_files_that_are_refused_before_transformers_sees_them(
    tmp_path: Path, config: dict[str, Any], said: str
) -> None:
    """No model type, classes of a repository, kernels of a repository."""
    with pytest.raises(PlacerError) as found:
        from_config(write(tmp_path, **config))
    assert said in found.value.message


@needs_transformers
@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"model_type": "nope"}, "nope"),
        ({"model_type": "roberta", "vocab_size": "many"}, "vocab_size"),
        ({"model_type": "roberta", "hidden_size": 33}, "33"),
        ({"model_type": "sam"}, "has none of the tasks"),
    ],
)
def test_what_transformers_refuses_is_said_in_one_line(
    tmp_path: Path, config: dict[str, Any], said: str
) -> None:
    """An unknown type, a size in words, heads that do not divide the width, a task that has no
    batches here.
    """
    with pytest.raises(PlacerError) as found:
        from_config(write(tmp_path, **config))
    assert said in found.value.message
    assert "\n" not in str(found.value)


@needs_transformers
def test_encoders_with_decoders_are_counted_on_the_meta_device(tmp_path: Path) -> None:
    """BART makes a mask of its own and looks at its values."""
    layers: dict[str, Any] = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1}
    heads: dict[str, Any] = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    file = write(tmp_path, architectures=["BartModel"], model_type="bart", **layers, **heads)
    with META:
        workload = from_config(file, 16)
    assert count(workload).of(1).flops > 0


@needs_transformers
@pytest.mark.parametrize("kind", ["GPT2LMHeadModel", "LlamaForCausalLM"])
def test_decoders_are_counted_on_the_meta_device(tmp_path: Path, kind: str) -> None:
    """Releases since 4.53 look for several texts in one sequence, at values that are not there;
    FLOPs of a text grow a little faster than its tokens.
    """
    file = write(tmp_path, architectures=[kind], max_position_embeddings=64, **SMALL[kind])
    with META:
        short, long = (from_config(file, tokens) for tokens in (16, 32))
    flops = [count(workload).of(1).flops for workload in (short, long)]
    assert 2 < flops[1] / flops[0] < 3
    assert short.architecture is not None
    assert short.architecture.sequence_length == 16
    assert short.architecture.parameters == gradient_sizes(short).parameters


OTHERS: dict[str, dict[str, Any]] = yaml.safe_load("""
opt: {ffn_dim: 64, word_embed_proj_dim: 32, max_position_embeddings: 64}
stablelm: {num_key_value_heads: 2}
qwen2_moe: {num_key_value_heads: 2, num_experts: 4, num_experts_per_tok: 1,
  moe_intermediate_size: 16, shared_expert_intermediate_size: 16, decoder_sparse_step: 1}
""")


@needs_transformers
@pytest.mark.parametrize("model_type", OTHERS)
def test_decoders_without_a_reader_are_counted(tmp_path: Path, model_type: str) -> None:
    """`--model hf:` makes them on the meta device: all parameters, those of the experts that a
    token meets, and no look-ups among those that are multiplied with.
    """
    file = write(tmp_path, model_type=model_type, **{**TINY, **OTHERS[model_type]})
    shape = counted.count_file(file, load_catalog(None)).architecture
    assert shape is not None
    with META:
        module = from_config(file).module
    sizes = {name: p.numel() for name, p in module.named_parameters()}
    experts = sum(size for name, size in sizes.items() if ".experts." in name)
    assert shape.parameters == sum(sizes.values())
    assert shape.active_parameters == shape.parameters - experts * 3 // 4
    assert (shape.layers, shape.width) == (2, 32)
    assert shape.computed_parameters < shape.active_parameters or shape.tied


PUBLISHED: dict[str, tuple[int, dict[str, Any]]] = yaml.safe_load("""
google/gemma-3-4b-pt, defaults left out:
- 4300079472
- architectures: [Gemma3ForConditionalGeneration]
  model_type: gemma3
  text_config: {model_type: gemma3_text, hidden_size: 2560, intermediate_size: 10240,
    num_hidden_layers: 34, sliding_window: 1024}
  vision_config: {model_type: siglip_vision_model, hidden_size: 1152, image_size: 896,
    intermediate_size: 4304, num_attention_heads: 16, num_hidden_layers: 27, patch_size: 14,
    vision_use_head: false}
Llama 4, a number for a flag:
- 108641793536
- architectures: [Llama4ForConditionalGeneration]
  model_type: llama4
  text_config: {model_type: llama4_text, attn_temperature_tuning: 4}
  vision_config: {model_type: llama4_vision_model, hidden_size: 1408, image_size: 336,
    intermediate_size: 5632, projector_input_dim: 4096, projector_output_dim: 4096,
    vision_output_dim: 4096}
openai/clip-vit-large-patch14:
- 427616513
- architectures: [CLIPModel]
  model_type: clip
  projection_dim: 768
  text_config: {model_type: clip_text_model, hidden_size: 768, intermediate_size: 3072,
    num_attention_heads: 12}
  vision_config: {model_type: clip_vision_model, hidden_size: 1024, intermediate_size: 4096,
    num_attention_heads: 16, num_hidden_layers: 24, patch_size: 14}
google/flan-t5-xxl, whose output layer is its own:
- 11135332352
- {architectures: [T5ForConditionalGeneration], model_type: t5, d_ff: 10240, d_model: 4096,
   feed_forward_proj: gated-gelu, num_heads: 64, num_layers: 24, tie_word_embeddings: false,
   vocab_size: 32128}
sentence-transformers/all-MiniLM-L6-v2:
- 22713216
- {architectures: [BertModel], model_type: bert, hidden_size: 384, intermediate_size: 1536,
   num_hidden_layers: 6}
UNet of Stable Diffusion 1.5:
- 859520964
- {_class_name: UNet2DConditionModel, cross_attention_dim: 768, sample_size: 64}
""")


@needs_transformers
@pytest.mark.parametrize("name", PUBLISHED)
def test_published_models_count_to_the_last_parameter(tmp_path: Path, name: str) -> None:
    """The class that ``architectures`` names, with the defaults of its type; of decoders with the
    dimensions that answers rest on.
    """
    parameters, config = PUBLISHED[name]
    if "_class_name" in config:
        pytest.importorskip("diffusers")
    with META:
        workload = from_config(write(tmp_path, **config))
    assert gradient_sizes(workload).parameters == parameters
    assert workload.architecture is None or workload.architecture.parameters == parameters


@needs_transformers
def test_a_model_has_rates_where_it_fits(tmp_path: Path) -> None:
    """A small encoder on all GPUs, at the usual batch."""
    _, config = PUBLISHED["sentence-transformers/all-MiniLM-L6-v2"]
    book = load_catalog(None)
    profile = counted.count_file(write(tmp_path, **config), book)
    room = {rate.gpu: book.gpus[rate.gpu].memory_gib * 2**30 for rate in profile.rates}
    assert room
    assert min(room.values()) >= profile.device_memory_bytes


DIFFUSERS: dict[str, dict[str, Any]] = yaml.safe_load("""
UNet2DConditionModel: {addition_embed_type: text_time, addition_time_embed_dim: 8,
  projection_class_embeddings_input_dim: 80, block_out_channels: [32, 64],
  cross_attention_dim: 16, down_block_types: [DownBlock2D, CrossAttnDownBlock2D],
  up_block_types: [CrossAttnUpBlock2D, UpBlock2D], sample_size: 8}
SD3Transformer2DModel: {attention_head_dim: 8, num_attention_heads: 2, num_layers: 2,
  caption_projection_dim: 16, joint_attention_dim: 16, pooled_projection_dim: 16,
  sample_size: 8}
FluxTransformer2DModel: {attention_head_dim: 8, axes_dims_rope: [2, 2, 4],
  num_attention_heads: 2, num_layers: 1, num_single_layers: 1, joint_attention_dim: 16,
  pooled_projection_dim: 16, guidance_embeds: true, sample_size: 8}
""")


@pytest.mark.parametrize("kind", DIFFUSERS)
def test_diffusion_models_take_their_batch(tmp_path: Path, kind: str) -> None:
    """One step on the CPU: a finite loss with gradients."""
    pytest.importorskip("diffusers")
    workload = from_config(write(tmp_path, _class_name=kind, **DIFFUSERS[kind]))
    loss: Any = workload.loss(workload.module, workload.batch(2, CPU))
    loss.backward()
    assert math.isfinite(loss.item())
    assert workload.sample(CPU) is not None


@needs_transformers
@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"model_type": "bert", "architectures": ["BertForNothing"]}, "does not have"),
        ({"_class_name": "NoSuchModel"}, "has no model NoSuchModel"),
        ({"_class_name": "N" * 61}, "has no model N{60}$"),
        ({"_class_name": "AutoencoderKL"}, "of diffusers has"),
    ],
)
def test_classes_without_an_answer_are_named(
    tmp_path: Path, config: dict[str, Any], said: str
) -> None:
    """No other class is counted in its place."""
    if "_class_name" in config:
        pytest.importorskip("diffusers")
    with pytest.raises(PlacerError) as found:
        from_config(write(tmp_path, **config))
    assert re.search(said, found.value.message)


@needs_transformers
def test_a_model_is_counted_in_a_process_of_its_own(tmp_path: Path) -> None:
    """As in this one, and what is wrong with a file comes back in one line."""
    file = write(tmp_path, model_type="stablelm", **{**TINY, **OTHERS["stablelm"]})
    assert model_of(f"hf:{file}") == counted.count_file(file, load_catalog(None))
    wrong = write(tmp_path, "wrong.json", model_type="nope")
    with pytest.raises(PlacerError, match="knows no model type 'nope'"):
        model_of(f"hf:{wrong}")


def test_a_count_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A million layers take all the time that there is: one line, and the process is gone."""
    monkeypatch.setattr(counted, "MOST_SECONDS", 3)
    file = write(tmp_path, model_type="bert", num_hidden_layers=10**6)
    with pytest.raises(PlacerError, match="cannot be counted"):
        model_of(f"hf:{file}")


PROFILED = """
import sys
from placer.interface.options import model_of
sys.modules["torch"] = None
print(model_of("hf:" + sys.argv[1]).parameters)
"""


def test_a_standard_decoder_needs_no_pytorch(tmp_path: Path) -> None:
    """70 B parameters: dimensions are read, nothing is made."""
    llama: dict[str, Any] = {
        "model_type": "llama",
        "num_hidden_layers": 80,
        "hidden_size": 8192,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "intermediate_size": 28672,
        "vocab_size": 128256,
    }
    done = completed(
        [sys.executable, "-c", PROFILED, str(write(tmp_path, **llama))],
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert int(done.stdout) == 70_553_706_496
