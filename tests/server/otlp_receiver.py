"""otlp_receiver.py - an OpenTelemetry receiver that takes only what the protocol allows, in JSON over HTTP, and
fails or delays as it is told."""
import http.server
import json
import re
import threading

PATHS = {"/v1/logs": ("resourceLogs", "scopeLogs", "logRecords"), "/v1/traces": ("resourceSpans", "scopeSpans", "spans"),
         "/v1/metrics": ("resourceMetrics", "scopeMetrics", "metrics")}
DIGITS = re.compile(r"(0|-?[1-9][0-9]*)$")
UNSIGNED = re.compile(r"(0|[1-9][0-9]*)$")


class Wrong(Exception):
    pass


def must(holds, what):
    if not holds:
        raise Wrong(str(what))


def only(thing, required, optional=()):
    must(isinstance(thing, dict), thing)
    must(set(required) <= set(thing), f"missing: {set(required) - set(thing)} in {thing}")
    must(set(thing) <= set(required) | set(optional), f"unknown: {set(thing) - set(required) - set(optional)}")


def uint(text, bits=64):
    must(isinstance(text, str) and UNSIGNED.match(text) and int(text) < 1 << bits, f"a number of {bits} bits as text: {text!r}")
    return int(text)


def identity(text, n):
    must(isinstance(text, str) and re.match(r"[0-9a-f]{%d}$" % n, text) and set(text) != {"0"}, f"an id: {text!r}")


def value(v, depth=0):
    must(isinstance(v, dict) and len(v) <= 1 and depth < 10, v)
    for kind, inner in v.items():
        if kind == "stringValue":
            must(isinstance(inner, str), v)
        elif kind == "intValue":
            must(isinstance(inner, str) and DIGITS.match(inner) and -1 << 63 <= int(inner) < 1 << 63, v)
        elif kind == "boolValue":
            must(isinstance(inner, bool), v)
        elif kind == "doubleValue":
            must(isinstance(inner, (int, float)) and not isinstance(inner, bool), v)
        elif kind == "arrayValue":
            only(inner, ["values"])
            [value(one, depth + 1) for one in inner["values"]]
        elif kind == "kvlistValue":
            only(inner, ["values"])
            attributes(inner["values"], depth + 1)
        else:
            must(False, f"unknown value: {kind}")


def attributes(rows, depth=0):
    must(isinstance(rows, list), rows)
    for row in rows:
        only(row, ["key", "value"])
        must(isinstance(row["key"], str) and row["key"], row)
        value(row["value"], depth)
    keys = [row["key"] for row in rows]
    must(len(keys) == len(set(keys)), f"an attribute twice: {keys}")


def plain(v):
    """A value as Python has it."""
    for kind, inner in v.items():
        if kind == "intValue":
            return int(inner)
        if kind == "arrayValue":
            return [plain(one) for one in inner["values"]]
        if kind == "kvlistValue":
            return {row["key"]: plain(row["value"]) for row in inner["values"]}
        return inner
    return None


def facts(thing):
    return {row["key"]: plain(row["value"]) for row in thing["attributes"]}


def log(r):
    only(r, ["timeUnixNano", "observedTimeUnixNano", "severityNumber", "severityText", "eventName", "body", "attributes"], ["traceId", "spanId"])
    uint(r["timeUnixNano"])
    uint(r["observedTimeUnixNano"])
    must(r["severityNumber"] in range(1, 25), r["severityNumber"])
    must(r["severityText"] == {9: "INFO", 13: "WARN", 17: "ERROR"}[r["severityNumber"]], r["severityText"])
    value(r["body"])
    attributes(r["attributes"])
    must(("traceId" in r) == ("spanId" in r), "both or none")
    if "traceId" in r:
        identity(r["traceId"], 32)
        identity(r["spanId"], 16)


def span(s):
    only(s, ["traceId", "spanId", "name", "kind", "startTimeUnixNano", "endTimeUnixNano", "attributes"], ["parentSpanId", "status"])
    identity(s["traceId"], 32)
    identity(s["spanId"], 16)
    if "parentSpanId" in s:
        identity(s["parentSpanId"], 16)
    must(isinstance(s["name"], str) and s["name"], s)
    must(type(s["kind"]) is int and s["kind"] in range(1, 6), s["kind"])
    must(uint(s["startTimeUnixNano"]) <= uint(s["endTimeUnixNano"]), "ends before it begins")
    attributes(s["attributes"])
    if "status" in s:
        only(s["status"], ["code"], ["message"])
        must(type(s["status"]["code"]) is int and s["status"]["code"] in (0, 1, 2), s["status"])


def point(p, kind):
    if kind == "histogram":
        only(p, ["attributes", "startTimeUnixNano", "timeUnixNano", "count", "sum", "bucketCounts", "explicitBounds"])
        must(sum(uint(n) for n in p["bucketCounts"]) == uint(p["count"]), "buckets and their sum")
        must(len(p["bucketCounts"]) == len(p["explicitBounds"]) + 1, "buckets and bounds")
        must(p["explicitBounds"] == sorted(set(p["explicitBounds"])), "bounds in order")
    else:
        only(p, ["attributes", "timeUnixNano"], ["startTimeUnixNano", "asDouble", "asInt"])
        must(("asInt" in p) != ("asDouble" in p), "one number")
        if "asInt" in p:
            must(DIGITS.match(p["asInt"]), p)
    must(uint(p.get("startTimeUnixNano", "0")) <= uint(p["timeUnixNano"]), p)
    attributes(p["attributes"])


def metric(m):
    kinds = {"gauge", "sum", "histogram"} & set(m)
    must(len(kinds) == 1, m)
    kind = kinds.pop()
    only(m, ["name", "unit", kind])
    body = m[kind]
    if kind == "gauge":
        only(body, ["dataPoints"])
    elif kind == "sum":
        only(body, ["dataPoints", "aggregationTemporality", "isMonotonic"])
        must(type(body["isMonotonic"]) is bool, body)
    else:
        only(body, ["dataPoints", "aggregationTemporality"])
    must(body.get("aggregationTemporality", 2) == 2, body)
    must(body["dataPoints"], "a metric without points")
    for p in body["dataPoints"]:
        point(p, kind)


CHECKS = {"/v1/logs": log, "/v1/traces": span, "/v1/metrics": metric}


def check_request(path, body):
    """The resource's attributes, and the things in it."""
    top, scopes, member = PATHS[path]
    only(body, [top])
    (one,) = body[top]
    only(one, ["resource", scopes])
    only(one["resource"], ["attributes"])
    attributes(one["resource"]["attributes"])
    (scope,) = one[scopes]
    only(scope, ["scope", member])
    only(scope["scope"], ["name", "version"])
    must(scope[member], "an empty request")
    for thing in scope[member]:
        CHECKS[path](thing)
    return facts(one["resource"]), scope[member]


class Receiver:
    """with Receiver() as r: ... r.url, r.logs, r.spans, r.metrics. answers: what the next requests get, as (status,
    headers, object), before all others get 200."""

    def __init__(self):
        self.logs, self.spans, self.metrics, self.bodies = [], [], [], []
        self.resources, self.faults, self.requests, self.answers, self.headers = [], [], [], [], []
        self.lock = threading.Lock()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status, headers, answer = outer.take(self.path, self.headers, body)
                data = json.dumps(answer).encode()
                self.send_response(status)
                for name, text in headers.items():
                    self.send_header(name, text)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                try:
                    self.end_headers()
                    self.wfile.write(data)
                except OSError:
                    pass  # an exporter that was killed

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def take(self, path, headers, body):
        with self.lock:
            self.requests.append((path, len(body)))
            self.headers.append(dict(headers))
            if self.answers:
                answer = self.answers.pop(0)
                if answer[0] != 200:
                    return answer
            else:
                answer = (200, {}, {})
            try:
                must(headers["Content-Type"] == "application/json", headers["Content-Type"])
                must(len(body) <= 4 << 20, "a body over 4 MiB")
                resource, things = check_request(path, json.loads(body))
            except (Wrong, ValueError, KeyError) as e:
                self.faults.append(f"{path}: {e!r}")
                return 400, {}, {"message": str(e)}
            self.bodies.append((path, body))
            self.resources.append(resource)
            {"/v1/logs": self.logs, "/v1/traces": self.spans, "/v1/metrics": self.metrics}[path].extend(things)
            return answer

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.server.shutdown()
        self.server.server_close()
