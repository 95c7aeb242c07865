"""A local object store: ``python -m placer.runtime.local_store`` serves moto's S3 on a free port of 127.0.0.1 until stdin ends.

With an entry of `placer.rehearsal.network.ShapedNetwork` as JSON it serves on that machine's address.
"""

from __future__ import annotations

import json
import sys


def main() -> None:
    """Serve, say the address, wait for the end of stdin."""
    address = "127.0.0.1"
    if len(sys.argv) > 1:
        from placer.rehearsal.network.enter import enter

        entry = json.loads(sys.argv[1])
        enter(entry)  # before there is a second thread
        address = entry["address"]
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address=address, port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    sys.stdout.write(f"http://{host}:{port}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
