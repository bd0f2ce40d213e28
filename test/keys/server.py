#!/usr/bin/env python3
"""A server for keys, as small as can be: a stand-in for a KMS.

    server.py PORT CERTIFICATE KEY TOKEN KEYS

Answers GET /keys on 127.0.0.1 with the file KEYS to those who show the token in the file
TOKEN, and 401 to all others.
"""

import hmac
import http.server
import ssl
import sys


def read(path):
    with open(path, "rb") as file:
        return file.read()


class Keys(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        wanted = b"Bearer " + read(sys.argv[4]).strip()
        shown = self.headers.get("Authorization", "").encode()
        if not hmac.compare_digest(shown, wanted):
            self.send_error(401)
        elif self.path != "/keys":
            self.send_error(404)
        else:
            keys = read(sys.argv[5])
            self.send_response(200)
            self.send_header("Content-Length", str(len(keys)))
            self.end_headers()
            self.wfile.write(keys)


server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Keys)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[2], sys.argv[3])
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
