"""A model of a configuration, counted on the meta device, as a profile that is asked about."""

from __future__ import annotations

from placer.market.catalog import Catalog
from placer.profiler.estimate.estimate import estimate
from placer.profiler.target.huggingface import from_config
from placer.profiler.target.torch_import import load_torch
from placer.workload.models.configuration import Configuration
from placer.workload.models.configured_decoder import configured_model
from placer.workload.profile import ModelProfile


def counted_profile(asked: Configuration, catalog: Catalog) -> ModelProfile:
    """Count a model whose dimensions the configuration does not give in a known way.

    Parameters
    ----------
    asked
        Of any model that transformers can make without code of others.
    catalog
        Whose GPUs get estimated rates; language models need none.

    Raises
    ------
    PlacerError
        If PyTorch or transformers is missing, or cannot make the model.
    """
    with load_torch().device("meta"):  # no memory for weights
        workload = from_config(asked.file)
    if workload.architecture is not None:
        return configured_model(asked, workload.architecture)
    return estimate(workload, catalog).to_profile()
