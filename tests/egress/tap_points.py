"""TAP output of tests with a real cordon-egress."""

from origin_server import STRAYS


class Tap:
    """Each check is one point. The last is that no server got stray bytes."""

    def __init__(self):
        self.n, self.failed = 0, 0

    def ok(self, good, name, detail=""):
        self.n += 1
        if not good:
            self.failed += 1
        print(f"{'ok' if good else 'not ok'} {self.n} - {name}", flush=True)
        if not good and detail != "":
            print(f"# {detail!r}", flush=True)

    def same(self, got, want, name):
        self.ok(got == want, name, f"got {got!r}, wanted {want!r}")

    def done(self):
        self.same(STRAYS, [], "no server got bytes after a body, or anything but requests")
        print(f"1..{self.n}", flush=True)
        return 1 if self.failed else 0
