"""Runs llama.cpp's own HTTP server on the model file it is given.

Says `port N`, then `ready` when the model is loaded, and ends with its stdin.
"""

import os
import socket
import sys
import threading
import time

import xllamacpp


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def end_with_stdin() -> None:
    sys.stdin.buffer.read()
    # The server has threads of its own; nothing here needs a tidy end.
    os._exit(0)


def main() -> None:
    threading.Thread(target=end_with_stdin, daemon=True).start()
    params = xllamacpp.CommonParams()
    params.model.path = sys.argv[1]
    params.hostnames = ["127.0.0.1"]
    params.port = free_port()
    params.n_ctx = 4096
    params.n_parallel = 1
    params.verbosity = 0
    print("port", params.port, flush=True)
    server = xllamacpp.Server(params)
    print("ready", flush=True)
    while server:
        time.sleep(3600)


main()
