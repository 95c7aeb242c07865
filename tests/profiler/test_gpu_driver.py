"""Drivers and clocks by NVML: NVIDIA's own binding, over a library that answers as a GPU's does."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import PROCESS_TIMEOUT_S, ROOT, completed
from placer.errors import PlacerError
from placer.profiler.devices import load_nvml

pytest.importorskip("pynvml")

NVML = r"""
#include <string.h>
typedef unsigned int u;
static int gpu;
int nvmlInitWithFlags(u flags) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlSystemGetDriverVersion(char *text, u size) { strncpy(text, "570.86.15", size); return 0; }
int nvmlDeviceGetHandleByUUID(const char *uuid, void **found) {
  if (strcmp(uuid, "GPU-aa-bb")) return 6; /* not found */
  *found = &gpu; return 0;
}
int nvmlDeviceGetHandleByIndex_v2(u index, void **found) {
  if (index > 0) return 2; /* invalid argument */
  *found = &gpu; return 0;
}
int nvmlDeviceGetClockInfo(void *device, u kind, u *mhz) {
  if (device != &gpu) return 2;
  if (kind == 2) return 3; /* not supported */
  *mhz = kind == 1 ? 1590 : 7; return 0;
}
"""
"""Functions of NVML that placer asks, by their names in the library of the driver."""
READ = """
import json, sys
from placer.profiler.devices import read_driver
found = read_driver(*json.loads(sys.argv[1]))
print(json.dumps([found.driver, found.clock_mhz, found.memory_clock_mhz]))
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the library."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("nvml")
    (folder / "nvml.c").write_text(NVML, encoding="utf-8")
    options = ["-w", "-shared", "-fPIC", "-o", str(folder / "libnvidia-ml.so.1")]
    subprocess.run(
        [compiler, *options, str(folder / "nvml.c")], check=True, timeout=PROCESS_TIMEOUT_S
    )
    return folder


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["aa-bb", 5], ["570.86.15", 1590.0, None]),
        ([None, 0], ["570.86.15", 1590.0, None]),
        (["cc-dd", 0], ["570.86.15", None, None]),
        ([None, 4], ["570.86.15", None, None]),
    ],
    ids=["by identifier", "by number", "identifier of another GPU", "number too large"],
)
def test_driver_and_clocks_are_read(
    library: Path, words: list[object], expected: list[object]
) -> None:
    """The clock of the memory is not supported by this GPU, as on slices of a GPU: it is None, and
    the rest is kept.
    """
    done = completed(
        [sys.executable, "-c", READ, json.dumps(words)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "LD_LIBRARY_PATH": str(library)},
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == expected


def test_a_missing_binding_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line says what to install."""
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(PlacerError, match="nvidia-ml-py") as caught:
        load_nvml()
    assert "pip install 'placer-advisor[profile]'" in str(caught.value)
    assert caught.value.exit_code == 2
