"""Decoders of a Hugging Face configuration: dimensions read from the file, without PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from placer.errors import PlacerError
from placer.records import replace
from placer.workload.architecture import Architecture
from placer.workload.models.configuration import Configuration
from placer.workload.models.decoder import FOUR_BIT_BYTES, Decoder, language_model
from placer.workload.profile import ModelProfile

MOST_LAYERS = 10_000
MOST_WIDTH = 2**20
MOST_EXPERTS = 10_000
USUAL_TOKENS = 8192
"""Tokens of a sequence in pre-training where nobody says: as in that of Llama 3."""


def configured_decoder(asked: Configuration) -> Decoder | None:
    """Read the dimensions of a standard decoder and of the head that ``architectures`` names; None
    if it is none, or has parts beside it. A `PlacerError` names the key that is missing or out of
    range.
    """
    reader = READERS.get(asked.model_type)
    decoder = None if reader is None else reader(asked)
    if decoder is None or not (changes := _head(asked, decoder)):
        return None
    return replace(decoder, **changes, **_windows(asked))


def _head(asked: Configuration, decoder: Decoder) -> dict[str, Any]:
    """Return the head of a decoder as changes of it; empty where it is an unknown one. transformers
    classifies texts without a bias, tokens and answers with one.
    """
    name = asked.named_class
    if not name or name.endswith(("ForCausalLM", "LMHeadModel")):
        return {"outputs": None}
    biases = name.endswith(("ForTokenClassification", "ForQuestionAnswering"))
    if name.endswith("Model"):
        outputs = 0
    elif name.endswith("ForQuestionAnswering"):
        outputs = 2
    elif name.endswith(("ForSequenceClassification", "ForTokenClassification")):
        labels = asked.values.get("id2label")
        usual = len(labels) if isinstance(labels, Mapping) and labels else 2
        outputs = asked.whole("num_labels", default=usual)
    else:
        return {}
    rest = decoder.rest - decoder.head_biases + (outputs if biases else 0)
    return {"outputs": outputs, "rest": rest}


def configured_model(asked: Configuration, architecture: Architecture) -> ModelProfile:
    """Build a language model's profile; `PlacerError` where no optimizer changes its weights."""
    stored = asked.weight_bytes
    if stored is not None and stored > 0.5:
        raise PlacerError(
            f"'{asked.file}' has weights of {8 * stored:g} bits, which no optimizer changes",
            "give the config.json of the model before it was quantized",
        )
    if stored is not None:
        architecture = replace(architecture, frozen_bytes_per_parameter=FOUR_BIT_BYTES)
    return language_model(
        asked.name,
        f"{asked.model_type} language model, {architecture.sequence_length:,} tokens"
        + (", weights of 4 bits" if stored else ""),
        architecture,
        source=f"hf {asked.file.name}",
    )


def sequence_length(asked: Configuration) -> int:
    """Return the tokens of a sample: as many as the model takes, at most `USUAL_TOKENS`."""
    names = ("max_position_embeddings", "n_positions", "max_seq_len", "max_sequence_length")
    return min(USUAL_TOKENS, asked.text_part.whole(*names, default=USUAL_TOKENS))


def _rotary(
    *,
    norms: int = 2,
    norm_width: int = 1,
    head_norms: bool = False,
    own_heads: bool = False,
    matrices: int = 3,
    tied: bool = False,
    attention_bias: bool = False,
    query_bias: bool = False,
    mlp_bias: bool = False,
) -> Callable[[Configuration], Decoder]:
    """Make a reader of decoders with rotary positions.

    norms, norm_width: Norms of a layer, and vectors of each: 2 with a bias (LayerNorm), 1 without,
        0 where they have no weights.
    head_norms: Whether queries and keys of each head are normed.
    own_heads: Whether heads have a size of their own, which the configuration then must give.
    matrices: Of the feed-forward part: 3 where it is gated.
    tied, attention_bias, mlp_bias: What holds where the configuration does not say.
    query_bias: Whether queries, keys and values have biases, and the output of attention has none.
    """

    def read(asked: Configuration) -> Decoder:
        width, query, kv, head = _attention(asked, own_heads)
        mlp = asked.whole("intermediate_size", most=MOST_WIDTH)
        rest = norms * norm_width * width + (2 * head if head_norms else 0)
        if asked.flag("attention_bias", attention_bias):
            rest += query + 2 * kv + width
        elif query_bias:
            rest += query + 2 * kv
        if asked.flag("mlp_bias", mlp_bias):
            rest += (matrices - 1) * mlp + width
        return Decoder(
            layers=asked.whole("num_hidden_layers", most=MOST_LAYERS),
            width=width,
            query_width=query,
            kv_width=kv,
            mlp_width=mlp,
            mlp_matrices=matrices,
            vocabulary=asked.whole("vocab_size"),
            tied=asked.flag("tie_word_embeddings", tied),
            layer_rest=rest,
            rest=norm_width * width,
        )

    return read


def _attention(asked: Configuration, own_heads: bool = False) -> tuple[int, int, int, int]:
    """Read the width of the model, of all queries, of all keys, and of one head."""
    width = asked.whole("hidden_size", most=MOST_WIDTH)
    heads = asked.whole("num_attention_heads", most=MOST_WIDTH)
    kv_heads = asked.whole("num_key_value_heads", default=heads, most=MOST_WIDTH)
    if heads % kv_heads:
        raise PlacerError(
            f"'{asked.file}': {heads:,} heads do not divide into {kv_heads:,} groups",
            "correct num_key_value_heads",
        )
    usual = None if own_heads else _divided(asked, width, heads)
    head = asked.whole("head_dim", default=usual, most=MOST_WIDTH)
    return width, heads * head, kv_heads * head, head


def _divided(asked: Configuration, width: int, heads: int) -> int:
    if width % heads and asked.values.get("head_dim") is None:
        raise PlacerError(
            f"'{asked.file}': width {width:,} does not divide into {heads:,} heads",
            "correct num_attention_heads, or give head_dim",
        )
    return max(1, width // heads)


def _experts(
    dense: Callable[[Configuration], Decoder], width: str
) -> Callable[[Configuration], Decoder | None]:
    """Make a reader of mixtures of experts that replace the feed-forward part of every layer.

    dense: Reads everything else.
    width: Key of the hidden width of one expert.
    """

    def read(asked: Configuration) -> Decoder | None:
        plain = dense(asked)
        names = ("decoder_sparse_step", "interleave_moe_layer_step")
        every = asked.whole(*names, default=1, most=MOST_LAYERS)
        alone = asked.values.get("mlp_only_layers") or []
        if not isinstance(alone, list):
            raise PlacerError(f"'{asked.file}': mlp_only_layers is no list", "correct the file")
        sparse = [i for i in range(plain.layers) if (i + 1) % every == 0 and i not in alone]
        experts = asked.whole("num_experts", "num_local_experts", most=MOST_EXPERTS)
        per_token = asked.whole("num_experts_per_tok", most=MOST_EXPERTS)
        if per_token > experts:
            raise PlacerError(
                f"'{asked.file}': {per_token:,} of {experts:,} experts for each token",
                "correct num_experts_per_tok",
            )
        return replace(
            plain,
            mlp_width=asked.whole(width, most=MOST_WIDTH),
            dense_layers=plain.layers - len(sparse),
            dense_width=plain.mlp_width,
            router=1,
            experts=experts,
            experts_per_token=per_token,
        )

    return read


def _gpt2(asked: Configuration) -> Decoder:
    width = asked.whole("n_embd", most=MOST_WIDTH)
    mlp = asked.whole("n_inner", default=4 * width, most=MOST_WIDTH)
    _divided(asked, width, asked.whole("n_head", most=MOST_WIDTH))
    return Decoder(
        layers=asked.whole("n_layer", most=MOST_LAYERS),
        width=width,
        query_width=width,
        kv_width=width,
        mlp_width=mlp,
        mlp_matrices=2,
        vocabulary=asked.whole("vocab_size"),
        tied=asked.flag("tie_word_embeddings", True),
        positions=asked.whole("n_positions"),
        layer_rest=2 * 2 * width + 4 * width + mlp + width,  # two LayerNorms, biases
        rest=2 * width,
    )


def _phi(asked: Configuration) -> Decoder:
    """Read Phi-1 and -2: one LayerNorm a layer, biases everywhere, the output layer included."""
    read = _rotary(norms=1, norm_width=2, matrices=2, attention_bias=True, mlp_bias=True)
    plain = read(asked)
    biases = plain.vocabulary
    return replace(plain, rest=plain.rest + biases, head_biases=biases)


def _mpt(asked: Configuration) -> Decoder:
    """Read MPT, which has no biases; positions by ALiBi, else a table."""
    width = asked.whole("d_model", most=MOST_WIDTH)
    heads = asked.whole("n_heads", most=MOST_WIDTH)
    attention = asked.values.get("attn_config") or {}
    if not isinstance(attention, Mapping):
        raise PlacerError(f"'{asked.file}': attn_config is no object", "correct the file")
    inner = Configuration(file=asked.file, values=attention)
    kv_heads = inner.whole("kv_n_heads", default=heads, most=heads)
    return Decoder(
        layers=asked.whole("n_layers", most=MOST_LAYERS),
        width=width,
        query_width=width,
        kv_width=kv_heads * _divided(asked, width, heads),
        mlp_width=asked.whole("expansion_ratio", default=4, most=1024) * width,
        mlp_matrices=2,
        vocabulary=asked.whole("vocab_size"),
        tied=asked.flag("tie_word_embeddings", True),
        positions=None if inner.flag("alibi", True) else asked.whole("max_seq_len"),
        layer_rest=2 * width,
        rest=width,
    )


def _olmo2(asked: Configuration) -> Decoder:
    """Read OLMo 2, which norms all queries and all keys together."""
    plain = _rotary()(asked)
    return replace(plain, layer_rest=plain.layer_rest + plain.query_width + plain.kv_width)


def _starcoder2(asked: Configuration) -> Decoder:
    bias = asked.flag("use_bias", True)
    read = _rotary(norm_width=2, matrices=2, tied=True, attention_bias=bias, mlp_bias=bias)
    return read(asked)


def _deepseek(asked: Configuration) -> Decoder:
    """Read DeepSeek-V3, whose queries, keys and values pass through narrow matrices; its first
    layers have no experts. The head that predicts a further token is not counted.
    """
    width, heads = asked.whole("hidden_size"), asked.whole("num_attention_heads", most=MOST_WIDTH)
    nope = asked.whole("qk_nope_head_dim", default=128)
    rope = asked.whole("qk_rope_head_dim", default=64)
    query, value = heads * (nope + rope), heads * asked.whole("v_head_dim", default=128)
    narrow = asked.whole("kv_lora_rank", default=512, most=MOST_WIDTH)
    attention = width * (narrow + rope) + narrow * (heads * nope + value) + value * width
    rest = 2 * width + narrow
    queries = 0  # where queries pass through no narrow matrix
    if asked.values.get("q_lora_rank", 1536) is None:
        attention += width * query
    else:
        queries = asked.whole("q_lora_rank", default=1536, most=MOST_WIDTH)
        attention, rest = attention + queries * (width + query), rest + queries
    if asked.flag("attention_bias", False):
        rest += narrow + rope + width + queries
    layers = asked.whole("num_hidden_layers", most=MOST_LAYERS)
    dense = asked.whole("first_k_dense_replace", default=3, least=0, most=MOST_LAYERS)
    each = asked.whole("moe_intermediate_size", default=2048, most=MOST_WIDTH)
    return Decoder(
        layers=layers,
        width=width,
        query_width=query,
        value_width=value,
        kv_width=(query + value) // 2,
        attention=attention,
        mlp_width=each,
        mlp_matrices=3,
        vocabulary=asked.whole("vocab_size"),
        tied=asked.flag("tie_word_embeddings", False),
        layer_rest=rest,
        rest=width,
        experts=asked.whole("n_routed_experts", "num_experts", default=256, most=MOST_EXPERTS),
        experts_per_token=asked.whole("num_experts_per_tok", default=8, most=MOST_EXPERTS),
        router=1,
        shared_width=each * asked.whole("n_shared_experts", default=1, most=MOST_EXPERTS),
        dense_layers=min(layers, dense),
        dense_width=asked.whole("intermediate_size", most=MOST_WIDTH),
    )


def _gpt_oss(asked: Configuration) -> Decoder:
    """Read gpt-oss: biases everywhere, and one learnt sink for each head."""
    plain = _rotary(own_heads=True, attention_bias=True)(asked)
    mixed = _experts(lambda _: plain, "intermediate_size")(asked)
    assert mixed is not None
    heads = asked.whole("num_attention_heads", most=MOST_WIDTH)
    biases = mixed.experts * (2 * mixed.mlp_width + mixed.width + 1)
    return replace(mixed, layer_rest=plain.layer_rest + heads + biases)


def _llama4(asked: Configuration) -> Decoder:
    """Read the text part of Llama 4: one expert for all tokens beside the routed ones, wider layers
    where there are none.
    """
    mixed = _experts(_rotary(own_heads=True), "intermediate_size")(asked)
    assert mixed is not None
    dense = asked.whole("intermediate_size_mlp", most=MOST_WIDTH)
    return replace(mixed, shared_width=mixed.mlp_width, dense_width=dense)


def _mllama(asked: Configuration) -> Decoder:
    """Read the text part of Llama 3.2 Vision: every fifth layer looks at pictures, with normed
    heads and two gates; eight more rows of the embedding mark them. The output layer is its own.
    """
    plain = _rotary()(asked)
    listed = asked.values.get("cross_attention_layers")
    every = range(plain.layers)
    crossed = len([i for i in every if (i in listed if isinstance(listed, list) else i % 5 == 3)])
    *_, head = _attention(asked)
    rest = plain.rest + 8 * plain.width + crossed * (2 * head + 2)
    return replace(plain, rest=rest, tied=False)


WINDOWED = {
    "gemma2": 1 / 2,
    "gemma3_text": 5 / 6,
    "gpt_oss": 1 / 2,
    **dict.fromkeys(("mistral", "mixtral", "phi3"), 1.0),
    **dict.fromkeys(("qwen2", "qwen3", "qwen3_moe", "starcoder2"), 1.0),
}
"""Share of the layers with a window where the configuration does not list them."""
USUAL_WINDOWS = {"gemma2": 4096, "gpt_oss": 128}
"""Tokens of a window where the configuration does not say."""


def _windows(asked: Configuration) -> dict[str, Any]:
    """Read how far attention looks back, and in which share of the layers."""
    is_asked = asked.flag("use_sliding_window", not asked.model_type.startswith("qwen"))
    if asked.model_type not in WINDOWED or not is_asked:
        return {}
    window = asked.values.get("sliding_window", USUAL_WINDOWS.get(asked.model_type))
    if window is None:
        return {}
    share, kinds = WINDOWED[asked.model_type], asked.values.get("layer_types")
    if isinstance(kinds, list) and kinds:
        share = kinds.count("sliding_attention") / len(kinds)
    tokens = asked.whole("sliding_window", default=window)
    return {"window": tokens, "window_share": share} if share else {}


READERS: Mapping[str, Callable[[Configuration], Decoder | None]] = {
    "deepseek_v3": _deepseek,
    "gemma": _rotary(tied=True, own_heads=True),
    "gemma2": _rotary(tied=True, own_heads=True, norms=4),
    "gemma3_text": _rotary(tied=True, own_heads=True, norms=4, head_norms=True),
    "gpt2": _gpt2,
    "gpt_neox": _rotary(norm_width=2, matrices=2, attention_bias=True, mlp_bias=True),
    "gpt_oss": _gpt_oss,
    "granite": _rotary(),
    "llama": _rotary(),
    "llama4_text": _llama4,
    "mistral": _rotary(),
    "mllama_text_model": _mllama,
    "mixtral": _experts(_rotary(), "intermediate_size"),
    "mpt": _mpt,
    "olmo": _rotary(norm_width=0),
    "olmo2": _olmo2,
    "olmoe": _experts(_olmo2, "intermediate_size"),
    "phi": _phi,
    "phi3": _rotary(),
    "qwen2": _rotary(query_bias=True),
    "qwen3": _rotary(own_heads=True, head_norms=True),
    "qwen3_moe": _experts(_rotary(head_norms=True), "moe_intermediate_size"),
    "smollm3": _rotary(tied=True),
    "starcoder2": _starcoder2,
}
"""Readers by model type. Every count is checked against transformers in the tests."""
