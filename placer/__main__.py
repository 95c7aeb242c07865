"""Run the command line with ``python -m placer``."""

import sys

if __name__ == "__main__":
    try:
        from placer.cli import run

        run()
    except KeyboardInterrupt:  # while modules are loaded; later `run` says it
        sys.stderr.write("interrupted\n")
        sys.exit(130)
