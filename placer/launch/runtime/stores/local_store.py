"""A local object store: ``python -m placer.launch.runtime.stores.local_store ADDRESS`` serves S3 by
moto on a free port of that address until stdin ends.

The server is waitress, which keeps connections open as the stores of clouds do; moto's own closes
each, so that every request would open a new one and start slowly.
"""

from __future__ import annotations

import sys
import threading

THREADS = 32
"""Requests at a time; the clients are the workers and one function."""
LARGEST = 1 << 34
"""Objects stay in memory, whatever their size."""
RECEIVED_AT_ONCE = 1 << 18


def main() -> None:
    """Serve, say the address, wait for the end of stdin."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from waitress.server import create_server

    server = create_server(
        DomainDispatcherApplication(create_backend_app),
        host=sys.argv[1],
        port=0,
        threads=THREADS,
        inbuf_overflow=LARGEST,
        outbuf_overflow=LARGEST,
        outbuf_high_watermark=LARGEST,
        max_request_body_size=LARGEST,
        recv_bytes=RECEIVED_AT_ONCE,
    )
    threading.Thread(target=server.run, daemon=True).start()
    sys.stdout.write(f"http://{sys.argv[1]}:{server.effective_port}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
