"""Models from a configuration of Hugging Face diffusers: the part that is trained, on latent
pictures.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from placer.errors import PlacerError, installed
from placer.profiler.torch_import import load_torch, one_line
from placer.profiler.workload import Workload
from placer.workload.models.configuration import DIFFUSION, Configuration

if TYPE_CHECKING:
    import torch

LATENT = 128
"""Width of a latent picture where the configuration does not say: 1,024 pixels, eight to one."""
PROMPT = {"UNet2DConditionModel": 77, "SD3Transformer2DModel": 333, "FluxTransformer2DModel": 512}
"""Tokens of a prompt: of CLIP; of CLIP and T5 together; of T5. Keys are the classes that get
batches."""


def diffusion_model(asked: Configuration) -> Workload:
    """Make a workload of the class that the configuration names. Raises `PlacerError` if diffusers
    is missing, has no such class, or cannot make it; or if nobody says what the class takes.
    """
    name = str(asked.values[DIFFUSION])
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read when it is imported
    need = f"'{asked.file}' needs Hugging Face diffusers for {name[:60]}"
    diffusers = installed("diffusers", need, "hf")
    made = getattr(diffusers, name, None)
    if not (isinstance(made, type) and issubclass(made, diffusers.ModelMixin)):
        raise PlacerError(
            f"diffusers {diffusers.__version__} has no model {name[:60]}", "correct _class_name"
        )
    level = diffusers.utils.logging.get_verbosity()
    diffusers.utils.logging.set_verbosity_error()
    try:
        module: Any = made.from_config(dict(asked.values))  # type: ignore[attr-defined]
    except Exception as error:
        raise PlacerError(
            f"diffusers cannot make a model of '{asked.file}': {one_line(error)[:200]}",
            "correct the configuration",
        ) from None
    finally:
        diffusers.utils.logging.set_verbosity(level)
    if name not in PROMPT:
        count = sum(p.numel() for p in module.parameters())
        raise PlacerError(
            f"'{asked.file}': {name[:60]} of diffusers has {count:,} parameters, and inputs that "
            "are not known",
            "profile package.module:function instead",
        )
    config = dict(module.config)
    return Workload(
        name=asked.name,
        title=f"{name}, latent pictures of {_width(config)} x {_width(config)}",
        family="transformer" if "Transformer" in name else "cnn",
        module=module.float(),
        batch=lambda samples, device: _batch(name, config, samples, device),
        loss=lambda trained, batch: trained(**batch)[0].float().pow(2).mean(),
        optimizer=lambda parameters: load_torch().optim.AdamW(parameters, lr=1e-4),
        source=f"hf {asked.file.name}",
    )


def _width(config: Mapping[str, Any]) -> int:
    size = config.get("sample_size") or LATENT
    return int(size if isinstance(size, int) else size[0])


def _batch(
    name: str, config: Mapping[str, Any], samples: int, device: torch.device
) -> dict[str, Any]:
    """Draw noisy latent pictures, times, and prompts as their encoders would give them."""
    draw: Callable[..., Any] = lambda *shape: load_torch().randn(*shape, device=device)  # noqa: E731
    width, tokens = _width(config), PROMPT[name]
    prompt = config.get("cross_attention_dim") or config.get("joint_attention_dim")
    prompt = prompt if isinstance(prompt, int) else 768 if prompt is None else prompt[0]
    others: dict[str, Any] = {
        "timestep": load_torch().ones(samples, device=device),
        "encoder_hidden_states": draw(samples, tokens, prompt),
    }
    pictures = draw(samples, config["in_channels"], width, width)
    if name == "UNet2DConditionModel":
        if config.get("addition_embed_type") == "text_time":
            times = 6 * config["addition_time_embed_dim"]
            pooled = config["projection_class_embeddings_input_dim"] - times
            said = {"text_embeds": draw(samples, pooled), "time_ids": draw(samples, 6)}
            others["added_cond_kwargs"] = said
        return {"sample": pictures, **others}
    others["pooled_projections"] = draw(samples, config["pooled_projection_dim"])
    if name == "SD3Transformer2DModel":
        return {"hidden_states": pictures, **others}
    patches = width**2 // 4  # Flux packs two by two latents in its channels
    others |= {"img_ids": draw(patches, 3), "txt_ids": draw(tokens, 3)}
    if config.get("guidance_embeds"):
        others["guidance"] = others["timestep"]
    return {"hidden_states": draw(samples, patches, config["in_channels"]), **others}
