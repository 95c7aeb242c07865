"""Whether the source of a module can have a function, without running any of it."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from importlib.machinery import ModuleSpec

from placer.errors import PlacerError
from placer.profiler.steps.failures import one_line

MADE_AS_IT_RUNS = {"*", "__getattr__", "globals", "vars", "exec", "setattr"}
"""Names by which a module can have functions that its source does not name."""


def check_source(spec: ModuleSpec, function_name: str) -> None:
    """Refuse a module whose source is no Python or names no such function; one without source, or
    that makes names as it runs, passes.

    Raises
    ------
    PlacerError
        Names the functions that the source defines.
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
    names = _names(tree)
    if source is None or function_name in names or names & MADE_AS_IT_RUNS:
        return
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    defined = sorted(node.name for node in tree.body if isinstance(node, functions))
    raise no_function(spec.name, function_name, defined)


def no_function(module_name: str, function_name: str, defined: Sequence[str]) -> PlacerError:
    """Build the error of a module without a function."""
    return PlacerError(
        f"{module_name} has no function '{function_name}'",
        f"it has: {', '.join(defined[:8]) or 'none'}",
    )


def _names(tree: ast.Module) -> set[str]:
    """Return every name that a source defines, imports or uses, at whatever depth."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).split(".")[0])
        elif isinstance(node, ast.Name):
            names.add(node.id)
    return names
