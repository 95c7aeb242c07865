"""``placer models``: what can be trained."""

from __future__ import annotations

from placer.cli.command import Table, as_command
from placer.cli.screen.show import show

MODELS_SCHEMA = "placer.models/v1"


@as_command("models", "Example: placer models roberta-xlm")
def command(name: str | None = None, *, public: bool = False, as_json: Table) -> None:
    """List the models that have a profile, or show the sizes, rates and sources of NAME: one of
    them, a public model such as Qwen/Qwen2.5-7B, a file, hf:config.json, or a number of parameters
    such as 7B.

    public: List public models instead, by their names on Hugging Face: their dimensions are known.
    """
    from placer.interface.options import model_of
    from placer.workload.models.model_words import public_model_names
    from placer.workload.profile import SCHEMA, profile_document, profile_names

    listed = public_model_names() if public else profile_names()
    profiles = [model_of(n) for n in ([name] if name else listed)]
    documents = [{"schema": SCHEMA, **profile_document(p)} for p in profiles]
    if name:
        show(documents[0], as_json=as_json)
        return
    document = {"schema": MODELS_SCHEMA, "models": documents}
    count = len(public_model_names())
    hint = f"{count} public models are known by name: placer models --public"
    show(document, as_json=as_json, names=listed, hint="" if public else hint)
