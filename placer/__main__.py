"""Run the command line with ``python -m placer``."""

from placer.cli import run

if __name__ == "__main__":
    run()
