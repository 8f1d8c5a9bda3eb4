"""fake_aws.py - AWS on loopback: the API that gives out passwords of registries, and such a registry, both by TLS at the
usual port of an address of its own. Names lead there by `hosts`.

The API verifies Signature Version 4 itself, from what the document of AWS says about it, and shares nothing with the
implementation that it tests."""
import base64
import datetime
import hashlib
import hmac
import http.server
import json
import os
import ssl
import subprocess
import threading

from checks import Skip
from fake_registry import Answer, Registry, basic

ADDRESS = f"127.44.{os.getpid() // 256 % 256}.{os.getpid() % 254 + 1}"  # of nothing else
REGION = "eu-west-1"
HOST = f"123456789012.dkr.ecr.{REGION}.amazonaws.com"
API = f"api.ecr.{REGION}.amazonaws.com"
HOSTS = f"{ADDRESS} {HOST} {API}\n"
KEY, SECRET, PASSWORD = "AKIDEXAMPLE123456789", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "password-of-the-registry"


def certificate(folder, *names):
    key, crt = os.path.join(folder, "key.pem"), os.path.join(folder, "crt.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-keyout", key, "-out", crt, "-days", "2", "-subj", "/CN=x", "-addext",
                    "subjectAltName=" + ",".join("DNS:" + name for name in names)], check=True, capture_output=True)
    return crt, key


def digest(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def fault(headers, path, body):
    """What is wrong with a request that should be signed; None: nothing."""
    scheme, _, rest = headers.get("authorization", "").partition(" ")
    parts = dict(part.split("=", 1) for part in rest.split(", ")) if scheme == "AWS4-HMAC-SHA256" else {}
    if set(parts) != {"Credential", "SignedHeaders", "Signature"}:
        return "MissingAuthenticationTokenException"
    key, day, region, service, last = parts["Credential"].split("/")
    if key != KEY:
        return "UnrecognizedClientException"
    when = datetime.datetime.strptime(headers["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.timezone.utc)
    if abs((datetime.datetime.now(datetime.timezone.utc) - when).total_seconds()) > 300:
        return "InvalidSignatureException"
    names = parts["SignedHeaders"].split(";")
    if names != sorted(names) or not {"host", "x-amz-date", "x-amz-target"} <= set(names) or headers["host"] != API:
        return "InvalidSignatureException"
    if (day, region, service, last) != (headers["x-amz-date"][:8], REGION, "ecr", "aws4_request"):
        return "InvalidSignatureException"
    canonical = "\n".join(["POST", path, "", *(f"{n}:{' '.join(headers[n].split())}" for n in names), "", parts["SignedHeaders"],
                           hashlib.sha256(body).hexdigest()])
    text = "\n".join(["AWS4-HMAC-SHA256", headers["x-amz-date"], f"{day}/{region}/{service}/{last}",
                      hashlib.sha256(canonical.encode()).hexdigest()])
    made = digest(digest(digest(digest(("AWS4" + SECRET).encode(), day), region), service), last)
    return None if hmac.compare_digest(digest(made, text).hex(), parts["Signature"]) else "InvalidSignatureException"


class Aws:
    """registry: the registry behind the names; asked: requests to the API; ca: what a client must trust."""

    def __init__(self, image, folder):
        tls = certificate(folder, HOST, API)
        with open(tls[0], "rb") as f:
            self.ca, self.ca_file = f.read(), tls[0]
        self.asked, self.registry = [], Registry(image)
        self.registry.answer = self.wall
        aws = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                pass

            def do_GET(self):
                headers = {k.lower(): v for k, v in self.headers.items()}
                aws.registry.requests.append((self.path, headers))
                aws.registry.send(self, aws.wall(self.path, headers) or aws.registry.usual(self.path, headers))
                self.close_connection = True

            def do_POST(self):
                headers = {k.lower(): v for k, v in self.headers.items()}
                aws.registry.send(self, aws.api(self.path, headers, self.rfile.read(int(headers["content-length"]))))
                self.close_connection = True

        try:
            self.server = http.server.ThreadingHTTPServer((ADDRESS, 443), Handler)
        except PermissionError:
            self.registry.close()
            raise Skip("an ordinary user cannot listen at port 443") from None
        self.server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*tls)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.registry.close()

    @staticmethod
    def wall(_target, headers):
        if headers.get("authorization") == basic("AWS", PASSWORD):
            return None
        return Answer(401, {"WWW-Authenticate": f'Basic realm="https://{HOST}/",service="ecr.amazonaws.com"'})

    def api(self, path, headers, body):
        self.asked.append((path, headers, body))
        wrong = fault(headers, path, body)
        if wrong is None and headers["x-amz-target"] != "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken":
            wrong = "UnknownOperationException"
        if wrong is not None:
            return Answer(400, {"Content-Type": "application/x-amz-json-1.1"},
                          json.dumps({"__type": f"com.amazonaws.ecr#{wrong}", "message": "no"}).encode())
        token = base64.b64encode(f"AWS:{PASSWORD}".encode()).decode()
        data = {"authorizationToken": token, "expiresAt": 1.7e9, "proxyEndpoint": f"https://{HOST}"}
        return Answer(200, {"Content-Type": "application/x-amz-json-1.1"}, json.dumps({"authorizationData": [data]}).encode())
