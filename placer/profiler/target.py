"""From the words of a command to what is measured: a function of the user, a built-in model, a
Hugging Face config.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import NoneType
from typing import Any

from placer.errors import PlacerError
from placer.profiler.torch_import import in_one_line, one_line, torch
from placer.profiler.workload import StepFunction, Workload
from placer.records import replace

PROTOCOL = (
    "return a placer.profiler.workload.Workload, (module, batch), (module, batch, "
    "loss) or a step function; see placer profile --help"
)
MADE_AS_IT_RUNS = {"*", "__getattr__", "globals", "vars", "exec", "setattr"}
"""Names by which a module can have functions that its source does not name."""


def load_target(
    target: str | None, builtin: str | None, name: str | None = None, seq_len: int | None = None
) -> Workload | StepFunction:
    """Find what shall be measured: the ``target``, or a built-in model; with a ``name``, or that of
    function, model or file. ``seq_len`` are the tokens of a text for ``hf:FILE``.

    A target is ``hf:FILE`` with a Hugging Face config, or ``package.module:function``. The function
    is called without arguments and returns

    * a `Workload`; or
    * ``(module, batch)`` or ``(module, batch, loss)``: a ``torch.nn.Module``; ``batch(n)`` or
      ``batch(n, device)``, which makes n samples; ``loss(module, batch)``, a scalar. Without a
      loss, the batch is what the module is called with (a tuple: positional, a dict: by keyword),
      and its result, its ``loss`` or the mean of its result is the loss. The optimizer is AdamW; or
    * a step function: ``step(batch_size)`` trains one batch on the device of its own choice. Only
      whole steps can be timed then. Its attribute ``module`` is the model of the gradients.
    """
    if (target is None) == (builtin is None):
        raise PlacerError(
            "give one thing to profile",
            "either package.module:function or hf:FILE, or --builtin NAME",
        )
    if name is not None and (not name.strip() or not name.isprintable()):
        raise PlacerError(
            f"--name {name!r} is empty or not printable", "give a word, such as my-model"
        )
    subject: Workload | StepFunction
    is_configuration = (target or "").startswith("hf:")
    if target is None:
        from placer.profiler.builtin import builtin as built_in

        subject = built_in(str(builtin))
    elif is_configuration:
        from placer.profiler.huggingface.workload import from_config

        subject = from_config(target.removeprefix("hf:"), seq_len)
    else:
        subject = _made(_called(target), target)
    if seq_len is not None and not is_configuration:
        raise PlacerError(
            "--seq-len is for hf:FILE", "the code of another target makes its own batches"
        )
    return subject if name is None else replace(subject, name=name)


def check_target(target: str) -> None:
    """Refuse a function that is not there, without importing its module: once here in place of once
    in each process of a run. Raises `PlacerError` if the words have another form, there is no such
    module, or its source is no Python or never names the function.
    """
    if target.startswith("hf:"):
        return
    module_name, function_name = _names(target)
    try:
        spec = importlib.util.find_spec(module_name)
        if spec is None:
            raise ModuleNotFoundError(f"No module named '{module_name}'")
    except ModuleNotFoundError as error:  # also of a package that holds it
        words = f"cannot import {module_name}: {one_line(error)}"
        raise PlacerError(words, "run placer in the folder that holds it") from None
    except Exception:
        return
    check_source(spec, function_name)


def check_source(spec: ModuleSpec, function_name: str) -> None:
    """Refuse a module whose source is no Python or names no such function; one without source, or
    that makes names as it runs, passes. A `PlacerError` names the functions that the source
    defines.
    """
    try:
        source = getattr(spec.loader, "get_source", lambda name: None)(spec.name)
        tree = ast.parse(source or "")
    except SyntaxError as error:
        raise PlacerError(
            f"cannot import {spec.name}: {type(error).__name__}: {one_line(error)}",
            "correct the module",
        ) from None
    except (ImportError, ValueError, RecursionError, MemoryError):
        return
    functions, names = (ast.FunctionDef, ast.AsyncFunctionDef), set()
    for node in ast.walk(tree):
        if isinstance(node, (*functions, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).split(".")[0])
        elif isinstance(node, ast.Name):
            names.add(node.id)
    if source is not None and function_name not in names and not names & MADE_AS_IT_RUNS:
        defined = sorted(node.name for node in tree.body if isinstance(node, functions))
        raise no_function(spec.name, function_name, defined)


def no_function(module_name: str, function_name: str, defined: Sequence[str]) -> PlacerError:
    """Build the error of a module without a function."""
    return PlacerError(
        f"{module_name} has no function '{function_name}'",
        f"it has: {', '.join(defined[:8]) or 'none'}",
    )


def _names(target: str) -> tuple[str, str]:
    """Split into module and function; modules may lie in the current folder."""
    module_name, _, function_name = target.partition(":")
    if not all(map(str.isidentifier, (*module_name.split("."), function_name))):
        raise PlacerError(
            f"'{target}': expected module:function, such as mymodel:profile",
            "as in mymodel.train:profile, or hf:FILE, or --builtin NAME",
        )
    here = os.getcwd()  # noqa: PTH109 - sys.path holds text
    if here not in sys.path:
        sys.path.insert(0, here)
    return module_name, function_name


def _called(target: str) -> Any:
    """Call the user's function."""
    module_name, function_name = _names(target)
    with in_one_line(f"cannot import {module_name}", "correct the module"):
        try:
            module = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            is_missing = error.name and module_name.startswith(error.name)
            here = "run placer in the folder that holds it"
            hint = here if is_missing else "install what it imports"
            raise PlacerError(f"cannot import {module_name}: {one_line(error)}", hint) from error
    function = getattr(module, function_name, None)
    if not callable(function):
        defined = sorted(
            n
            for n, f in vars(module).items()
            if inspect.isfunction(f) and f.__module__ == module.__name__
        )
        raise no_function(module_name, function_name, defined)
    with in_one_line(f"{target} fails", "correct the function, which is called without arguments"):
        return function()


ANY_NAME = ("profile", "workload", "make", "build", "main", "model", "train")
"""Functions that say nothing of what they make: the model is called like their file."""


def _made(returned: Any, target: str) -> Workload | StepFunction:
    """Read what a function returned."""
    file, _, function = target.partition(":")
    name = file.rpartition(".")[2] if function in ANY_NAME else function
    if isinstance(returned, Workload):
        _check(returned, target)
        return returned if returned.source else replace(returned, source=target)
    if (
        isinstance(returned, tuple)
        and len(returned) in (2, 3)
        and isinstance(returned[0], torch.nn.Module)
        and all(map(callable, returned[1:]))
    ):
        return Workload(
            name=name,
            title=f"{type(returned[0]).__name__} of {target}",
            family="other",
            module=returned[0],
            batch=_batch_maker(returned[1]),
            loss=returned[2] if len(returned) == 3 else default_loss,
            optimizer=torch.optim.AdamW,  # usual in the family that is trained most
            source=target,
        )
    if callable(returned) and not isinstance(returned, (type, torch.nn.Module)):
        module = getattr(returned, "module", None)
        return StepFunction(
            name=name,
            source=target,
            run=returned,
            module=module if isinstance(module, torch.nn.Module) else None,
        )
    raise PlacerError(f"{target} returns {_kind(returned)}, which cannot be profiled", PROTOCOL)


def _check(workload: Workload, target: str) -> None:
    """Refuse a workload whose parts are of the wrong kind, before time is spent on it."""

    def is_words(value: Any) -> bool:
        return isinstance(value, str) and value.isprintable() and bool(value.strip())

    def is_count(value: Any) -> bool:
        return value is None or (isinstance(value, int) and value >= 1)

    def is_samples(value: Any) -> bool:
        return isinstance(value, (Iterable, NoneType)) or hasattr(value, "__getitem__")

    right: dict[str, Callable[[Any], bool]] = {
        **dict.fromkeys(("name", "title", "family"), is_words),
        "source": lambda value: value == "" or is_words(value),
        **dict.fromkeys(("batch", "loss", "optimizer"), callable),
        **dict.fromkeys(("target_batch_size", "microbatch"), is_count),
        "module": lambda value: isinstance(value, torch.nn.Module),
        "samples": is_samples,
    }
    for name, ok in right.items():
        value = getattr(workload, name)
        if not ok(value):
            raise PlacerError(
                f"the Workload of {target}: {name} is {ascii(value)[:80]}",
                "see placer.profiler.workload for what each part is",
            )


def _kind(returned: Any) -> str:
    if isinstance(returned, tuple):
        return f"a tuple of ({', '.join(type(part).__name__ for part in returned)})"
    return type(returned).__name__


def _batch_maker(function: Callable[..., Any]) -> Callable[[int, Any], Any]:
    """Accept ``batch(n, device)`` and ``batch(n)``, whose tensors are moved."""
    try:
        inspect.signature(function).bind(1, None)
    except TypeError:
        return lambda count, device: moved(function(count), device)
    except ValueError:
        pass  # no signature, as of a function in C: taken to have both
    return function


def moved(batch: Any, device: Any) -> Any:
    """Move the tensors of a batch to a device; lists, tuples and mappings are looked into."""
    if isinstance(batch, torch.Tensor):
        return batch.to(device)
    if isinstance(batch, Mapping):
        return {key: moved(value, device) for key, value in batch.items()}
    if type(batch) in (list, tuple):
        return type(batch)(moved(value, device) for value in batch)
    return batch


def default_loss(module: Any, batch: Any) -> Any:
    """Compute the loss where the user gave none: the module's own, else the mean of its result."""
    keywords = batch if isinstance(batch, Mapping) else {}
    inputs = () if keywords else batch if isinstance(batch, (list, tuple)) else (batch,)
    result = module(*inputs, **keywords)
    own = getattr(result, "loss", None)
    result = result if own is None else own
    while isinstance(result, (list, tuple)) and result:
        result = result[0]
    return result.float().mean()
