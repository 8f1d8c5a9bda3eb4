"""model_watch.py - looks at the server all the time: it answers within a bound, no sanitizer has a report, no program
ended by itself."""
import http.client
import re
import threading
import time

BOUND_S = 8  # for /healthz, whatever else happens


class Health(threading.Thread):
    """Asks /healthz; a connection that is cut is asked again, one that hangs is a problem."""

    def __init__(self, ledger, trouble):
        super().__init__(daemon=True)
        self.ledger, self.server, self.trouble, self.waits = ledger, ledger.server, trouble, []

    def run(self):
        while not self.ledger.stop.wait(0.1):
            began = time.monotonic()
            try:
                status = self.server.request("GET", "/healthz", key=None, timeout=BOUND_S)[0]
                self.waits.append(time.monotonic() - began)
                if self.waits[-1] > 2:
                    at = time.strftime("%H:%M:%S", time.gmtime())
                    print(f"# slow: /healthz: {self.waits[-1]:.1f} s until {at}, last strikes {self.trouble.last}", flush=True)
                if status != 200:
                    self.ledger.problem(f"/healthz: {status}")
            except TimeoutError:
                self.ledger.problem(f"/healthz: no answer within {BOUND_S} s")
            except (OSError, http.client.HTTPException):
                pass  # nobody listens: it is being started again

    def text(self):
        waits = sorted(self.waits) or [0.0]
        return (f"/healthz {len(waits)} times: p50 {waits[len(waits) // 2] * 1000:.0f} ms, "
                f"p99 {waits[len(waits) * 99 // 100] * 1000:.0f} ms, max {waits[-1] * 1000:.0f} ms")


def died(log):
    """Ends of programs that no kill -9 of the test explains. Keepers, cordon-storage, cordon-pull, cordon-cache and cordon-notary end with their daemon, by themselves, and a daemon that
    has not begun yet ends by the SIGTERM of an upgrade."""
    ends = re.findall(r'.*msg="program ended" program=.*', log)
    fine = re.compile(r"signal=9$|program=cordon-(keeper|storage|pull|cache|notary) .* signal=0$|program=cordond .* signal=15$")
    return [line for line in ends if not fine.search(line)]
