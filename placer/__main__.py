"""Run the command line: ``placer``, or ``python -m placer``."""

import os
import signal
import sys
from typing import NoReturn


def main() -> NoReturn:
    """Run the command line; Ctrl-C at any moment ends it with one line, and code 130.

    While modules load, and after the last line, the signal ends the process itself: an exception in
    the middle of an import would be printed with a traceback, or caught by who imports.
    """
    heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    sys.unraisablehook = _unraisable
    try:
        if heard:
            signal.signal(signal.SIGINT, _end)
        from placer.cli import run

        if heard:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        run()
    except KeyboardInterrupt:
        _end()
    finally:
        if heard:
            signal.signal(signal.SIGINT, _end)
    raise AssertionError("run exits")


def _unraisable(unraisable: "sys.UnraisableHookArgs") -> None:
    """Hear Ctrl-C also where Python would print and forget it, as in a callback."""
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        _end()
    sys.__unraisablehook__(unraisable)


def _end(*_: object) -> NoReturn:
    os.write(2, b"interrupted\n")
    os._exit(130)


if __name__ == "__main__":
    main()
