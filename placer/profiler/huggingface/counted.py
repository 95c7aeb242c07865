"""Models that have to be made to be counted: in a process of its own, within a limit of time and of
memory.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from placer.errors import PlacerError
from placer.market.catalog import Catalog
from placer.workload.models.configuration import Configuration
from placer.workload.profile import SCHEMA, ModelProfile, profile_document, profile_from_json

MOST_CPU_S, MOST_SECONDS, MOST_BYTES = 60, 300, 12 * 2**30
"""CPU, clock and address space of a count. A model of a trillion parameters takes some seconds and
1 GB, as nothing has values; a file with a million layers takes all that there is.
"""


def counted_profile(asked: Configuration) -> ModelProfile:
    """Count a model whose dimensions the configuration does not give in a known way. Raises
    `PlacerError` if PyTorch or the library is missing, cannot make the model, or takes too long.

    asked: Of any model that transformers or diffusers can make without code of others. Language
        models get dimensions, others estimated rates on the GPUs of the shipped book.
    """
    paths = os.pathsep.join(path or str(Path.cwd()) for path in sys.path)
    try:
        done = subprocess.run(  # noqa: S603 - this module, with the path of a file that was read
            [sys.executable, "-m", __name__, str(asked.file.resolve())],
            env={**os.environ, "PYTHONPATH": paths},
            capture_output=True,
            timeout=MOST_SECONDS,
            check=False,
        )
        answer = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, ValueError):
        raise PlacerError(
            f"'{asked.file}' cannot be counted in {MOST_CPU_S} s and {MOST_BYTES >> 30} GiB",
            "correct its dimensions, or profile package.module:function",
        ) from None
    if "error" in answer:
        raise PlacerError(*answer["error"])
    return profile_from_json(done.stdout, str(asked.file))


def count_file(file: Path, catalog: Catalog) -> ModelProfile:
    """Make the model of a configuration on the meta device, and count it in this process."""
    from placer.profiler.estimate.estimate import estimate
    from placer.profiler.huggingface.workload import from_config
    from placer.profiler.torch_import import load_torch
    from placer.workload.models.configuration import read_configuration
    from placer.workload.models.configured_decoder import configured_model

    with load_torch().device("meta"):  # no memory for weights
        workload = from_config(file)
    if workload.architecture is not None:
        return configured_model(read_configuration(file), workload.architecture)
    return estimate(workload, catalog).to_profile()


def main() -> None:
    """Write the profile of a file, or why there is none."""
    from placer.market.books.book_reader import load_catalog

    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
        resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU_S, MOST_CPU_S))
    except (ImportError, ValueError, OSError):  # Windows, or a lower limit of the system
        pass
    answer: dict[str, Any]
    try:
        profile = count_file(Path(sys.argv[1]), load_catalog(None))
        answer = {"schema": SCHEMA, **profile_document(profile)}
    except PlacerError as error:
        answer = {"error": (error.message, error.hint)}
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()
