"""What the tests of attacks on the policy share: two sessions, and what a refusal looks like.

Addresses are attacked from the most generous policy there is (default allow: all that is public); names from one that allows
web.example, look.example (some paths) and *.wild.example."""
import os
import sys

import internet
from harness import check
from internet_client import POLICY, make, probe, shared

WIDE, HIDING = {}, {}


def start():
    """Before the first test: takes the program PLAIN off the command line, and enters the test's network namespaces."""
    if "PLAIN_PROGRAM" not in os.environ:
        os.environ["PLAIN_PROGRAM"] = os.path.abspath(sys.argv.pop(2))
    internet.enter()


def wide(server):
    """A session that may reach everything that is public."""
    if WIDE.get("server") is not server:
        WIDE.update(server=server, session=make(server, {"version": 1, "default": "allow"}))
    return WIDE["session"]


def hiding(server):
    """A session of POLICY in which refused names do not exist, so that a lookup shows whether a name is allowed."""
    if HIDING.get("server") is not server:
        HIDING.update(server=server, session=make(server, {**POLICY, "refused_names": "nxdomain"}))
    return HIDING["session"]


def control(server):
    """Behind each test: what is allowed is reached, from the same sessions; in turns."""
    WIDE["turn"] = not WIDE.get("turn")
    s = shared(server) if WIDE["turn"] else wide(server)
    got = probe(server, s, "[get('web.example'), by_proxy('web.example')[1], tls_get('look.example', check=False)]")
    check(all('"sha256"' in text for text in got), f"what is allowed does not work: {got}")


def served(text):
    """A server answered, not the gateway."""
    return '"sha256"' in text or "CANARY" in text or " 200 " in text.split("\r\n")[0]


def refused(got, what=""):
    """All of these are refusals, quick ones and in words where there is a language for words."""
    for text in got if isinstance(got, list) else [got]:
        if isinstance(text, list):
            refused(text, what)
            continue
        good = text.startswith("!") or text == "" or text.split(" ")[0] in ("HTTP/1.1", "tunnel") and not served(
            text.removeprefix("tunnel "))
        check(good and "Timeout" not in text, f"{what}: not refused: {text[:300]!r}")
