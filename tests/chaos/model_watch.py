"""model_watch.py - looks at the server all the time: it answers within a bound, no sanitizer has a report, no program
ended by itself."""
import http.client
import re
import threading
import time

BOUND_S = 8  # for /healthz, whatever else happens


class Health(threading.Thread):
    """Asks /healthz; a connection that is cut is asked again, one that hangs is a problem."""

    def __init__(self, ledger):
        super().__init__(daemon=True)
        self.ledger, self.server, self.waits = ledger, ledger.server, []

    def run(self):
        while not self.ledger.stop.wait(0.1):
            began = time.monotonic()
            try:
                status = self.server.request("GET", "/healthz", key=None, timeout=BOUND_S)[0]
                self.waits.append(time.monotonic() - began)
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
    """Ends of programs that no kill -9 of the test explains. The keeper ends with its daemon, by itself."""
    ends = re.findall(r'.*msg="?ended"? program=.*', log)
    return [line for line in ends if "signal=9" not in line and not ("cordon-keeper" in line and "signal=0" in line)]
