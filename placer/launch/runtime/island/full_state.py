"""The state of an island as that of one process, so that checkpoints fit any inner plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from placer.errors import PlacerError


def full_state(module: Any, optimizer: Any) -> dict[str, Any]:
    """Collect model, buffers and optimizer: whole tensors on the CPU of each process."""
    kept = optimizer.state_dict()
    state = {
        number: {key: _full(value) for key, value in values.items()}
        for number, values in kept["state"].items()
    }
    return {
        "module": {name: _full(value) for name, value in module.state_dict().items()},
        "optimizer": {**kept, "state": state},
    }


def load_full_state(
    module: Any, optimizer: Any, parameters: Sequence[Any], state: dict[str, Any]
) -> None:
    """Spread a whole state over the processes, each of which has it.

    Raises
    ------
    PlacerError
        If it belongs to another model.
    """
    try:
        own = module.state_dict()
        if own.keys() != state["module"].keys():
            raise ValueError("other names of parameters")
        module.load_state_dict(
            {name: _spread(value, own[name]) for name, value in state["module"].items()}
        )
        kept = state["optimizer"]
        spread = {
            number: {key: _spread(value, parameters[int(number)]) for key, value in values.items()}
            for number, values in kept["state"].items()
        }
        optimizer.load_state_dict({**kept, "state": spread})
    except (RuntimeError, ValueError, KeyError, IndexError) as error:
        words = " ".join(str(error).split())[:200]
        raise PlacerError(
            f"the checkpoint is not of this model: {words}",
            "choose another --out, or run without --resume",
        ) from None


def _full(value: Any) -> Any:
    from torch.distributed.tensor import DTensor

    if isinstance(value, DTensor):
        return value.full_tensor().cpu()
    return value.cpu() if hasattr(value, "cpu") else value


def _spread(value: Any, like: Any) -> Any:
    """Cut a whole tensor as another one is cut; figures of one element stay whole."""
    from torch.distributed.tensor import DTensor, distribute_tensor

    if not isinstance(like, DTensor) or not hasattr(value, "shape") or value.shape != like.shape:
        return value
    return distribute_tensor(value.to(like.device), like.device_mesh, like.placements)
