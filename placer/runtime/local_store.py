"""A local object store: ``python -m placer.runtime.local_store`` serves moto's S3 on a free port of 127.0.0.1 until stdin ends."""

from __future__ import annotations

import sys


def main() -> None:
    """Serve, say the address, wait for the end of stdin."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    sys.stdout.write(f"http://{host}:{port}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
