"""checks.py - what every Python test may use: assertions whose messages show both sides, and waiting.

Imports nothing of the other helpers. A test program passes a test that returns, skips one that raises Skip, and fails
any other."""
import os
import sys
import time

# A factor for what is waited for: programs of a virtual machine may be emulated.
PATIENCE = 4 if os.environ.get("CORDON_TEST_LEVEL") == "microvm" else 1


class Skip(Exception):
    """This machine cannot do what the test needs."""


class Failed(AssertionError):
    pass


def check(good, what):
    if not good:
        raise Failed(what)


def short(value):
    text = repr(value)
    return text if len(text) < 600 else text[:280] + " ... " + text[-280:]


def equal(got, want, what=""):
    if got != want:
        raise Failed(f"{what}: got {short(got)}, want {short(want)}")


def has(text, part, what=""):
    if part not in text:
        raise Failed(f"{what}: no {part!r} in {short(text)}")


def run_tap(tests):
    """Runs (name, function) pairs as TAP. Returns the exit code."""
    tests, failed = list(tests), 0
    print(f"1..{len(tests)}")
    for number, (name, act) in enumerate(tests, 1):
        try:
            act()
            print(f"ok {number} - {name}", flush=True)
        except Skip as e:
            print(f"ok {number} - {name} # SKIP {e}", flush=True)
        except Exception as e:  # any other way to fail is a failure, too
            failed += 1
            print(f"not ok {number} - {name}", flush=True)
            # Meson prints what a failed TAP program writes to stderr at once, and its stdout only at the end of all.
            print(f"# {name}: " + f"{type(e).__name__}: {e}".replace("\n", "\n# "), file=sys.stderr, flush=True)
    return 1 if failed else 0


def named_tests(where, wanted):
    """The functions test_NAME of a module's globals(), or those that are wanted."""
    return [(n[5:], f) for n, f in where.items() if n.startswith("test_") and (not wanted or n[5:] in wanted or n in wanted)]


def note(text):
    for line in str(text).splitlines():
        print("#", line)
    sys.stdout.flush()


def wait_for(what, seconds=10.0, name="it", step=0.01):
    """Calls until the result is true, and returns it."""
    seconds *= PATIENCE
    end = time.monotonic() + seconds
    while True:
        answer = what()
        if answer:
            return answer
        if time.monotonic() > end:
            raise Failed(f"{name} does not come within {seconds} s")
        time.sleep(step)


def settled(read, quiet=0.3, seconds=20.0):
    """The value of read(), when it has been the same for `quiet` seconds."""
    value, since = read(), time.monotonic()
    end = since + seconds
    while time.monotonic() - since < quiet and time.monotonic() < end:
        time.sleep(0.02)
        now = read()
        if now != value:
            value, since = now, time.monotonic()
    return value


def stays(what, seconds, name="it", step=0.02):
    """Fails if the condition becomes false within these seconds: for what must not happen."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        check(what(), f"{name} does not stay so for {seconds} s")
        time.sleep(step)


def unread_bytes(ports):
    """Bytes that are on their way from these local TCP ports, or wait at the other end to be read."""
    count = 0
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(path, encoding="ascii") as f:
            for line in f.readlines()[1:]:
                words = line.split()
                local, remote = (int(words[i].rsplit(":", 1)[1], 16) for i in (1, 2))
                sent, waiting = (int(part, 16) for part in words[4].split(":"))
                count += sent if local in ports else 0
                count += waiting if remote in ports else 0
    return count


def wait_read(*sockets, seconds=10.0):
    """Returns when the server, on this machine, has read all that these TCP sockets have sent."""
    ports = {s.getsockname()[1] for s in sockets}
    wait_for(lambda: unread_bytes(ports) == 0, seconds, "the server's reading of a request")
