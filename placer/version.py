"""The version of placer and its name on PyPI: here, so that no module imports the top package for
them.
"""

__version__ = "0.1.0"
DISTRIBUTION = "placer-advisor"
"""What pip installs; the package and the command are called placer."""


def install_line(extra: str) -> str:
    """Return the command that adds an extra.

    >>> install_line("milp")
    "pip install 'placer-advisor[milp]'"
    """
    return f"pip install '{DISTRIBUTION}[{extra}]'"
