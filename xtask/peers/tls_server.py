"""A model server behind TLS, and a proxy in front of it, each on a port of its own choice.

Writes the certificate of the authority it trusts into the file given as an argument, says `server N` and
`proxy N`, and ends with its stdin. For each line there it says `seen` and, as JSON, what happened since the last.
"""

import http.server
import json
import os
import socket
import socketserver
import ssl
import sys
import threading

import trustme

# The second exists nowhere: only the proxy knows the way.
NAMES = ["localhost", "tenon.test"]
PAYLOAD = {"risk": "low"}
# Longer than any of these exchanges; only ends a hang.
SOCKET_SECONDS = 30


class Seen:
    """What happened. It is told when no connection is open, so that nothing of an ended run is still to come."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.open = 0
        self.forget()

    def forget(self) -> None:
        self.refused, self.keys, self.connects, self.through_proxy = [], [], [], b""

    def opened(self, count: int) -> None:
        with self.changed:
            self.open += count
            self.changed.notify_all()

    def tell(self) -> str:
        with self.changed:
            self.changed.wait_for(lambda: self.open == 0, timeout=SOCKET_SECONDS)
            told = {
                "open": self.open,
                "refused": self.refused,
                "keys": self.keys,
                "connects": self.connects,
                "through_proxy": self.through_proxy.decode("latin-1"),
            }
            self.forget()
            return json.dumps(told)


SEEN = Seen()


class Counted(socketserver.ThreadingTCPServer):
    daemon_threads = True

    def process_request(self, request, client_address):
        SEEN.opened(1)
        super().process_request(request, client_address)

    def process_request_thread(self, request, client_address):
        try:
            super().process_request_thread(request, client_address)
        finally:
            SEEN.opened(-1)


class TlsServer(Counted):
    def __init__(self, authority: trustme.CA) -> None:
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(*NAMES).configure_cert(self.tls)
        super().__init__(("127.0.0.1", 0), Model)

    def finish_request(self, request, client_address):
        request.settimeout(SOCKET_SECONDS)
        try:
            secure = self.tls.wrap_socket(request, server_side=True)
        except OSError as error:
            SEEN.refused.append(str(error))
            return
        with secure:
            super().finish_request(secure, client_address)


class Model(http.server.BaseHTTPRequestHandler):
    """Answers every request with the payload, as a chat completion in pieces."""

    def do_POST(self) -> None:
        SEEN.keys.append(self.headers.get("authorization"))
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        function = {"name": "structured_output", "arguments": json.dumps(PAYLOAD)}
        call = {"index": 0, "id": "call_1", "type": "function", "function": function}
        self.piece({"role": "assistant", "tool_calls": [call]}, None)
        self.piece({}, "tool_calls")
        self.wfile.write(b"data: [DONE]\n\n")

    def piece(self, delta: dict, finish_reason: "str | None") -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
        chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": "m", "choices": [choice]}
        self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())

    def log_message(self, *_) -> None:
        pass


class Proxy(socketserver.StreamRequestHandler):
    """Knows one command, and keeps all that a client sends."""

    def handle(self) -> None:
        self.request.settimeout(SOCKET_SECONDS)
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            line = self.rfile.readline()
            if not line:
                break
            head += line
        SEEN.through_proxy += head
        method, _, rest = head.decode("latin-1").partition(" ")
        target = rest.split(" ")[0]
        SEEN.connects.append(f"{method} {target}")
        name, _, port = target.rpartition(":")
        if method != "CONNECT" or name not in NAMES:
            self.wfile.write(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n")
            return
        with socket.create_connection(("127.0.0.1", int(port)), SOCKET_SECONDS) as server:
            self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
            back = threading.Thread(target=self.pass_back, args=(server,))
            back.start()
            try:
                while piece := self.rfile.read1():
                    SEEN.through_proxy += piece
                    server.sendall(piece)
                server.shutdown(socket.SHUT_WR)
            except OSError:
                pass
            back.join()

    def pass_back(self, server: socket.socket) -> None:
        try:
            while piece := server.recv(65536):
                self.request.sendall(piece)
            self.request.shutdown(socket.SHUT_WR)
        except OSError:
            pass


def serve(name: str, server: socketserver.BaseServer) -> None:
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(name, server.server_address[1], flush=True)


def main() -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(sys.argv[1])
    serve("server", TlsServer(authority))
    serve("proxy", Counted(("127.0.0.1", 0), Proxy))
    for _ in sys.stdin:
        print("seen", SEEN.tell(), flush=True)
    # A connection that hangs has a thread; nothing here needs a tidy end.
    os._exit(0)


main()
