"""leveled.py - a server whose default template has the level of the suite (CORDON_TEST_LEVEL): E2B's clients name no level, so it is the
operator's setting `template` that gives their sandboxes one, as doc/e2b.md has it.

At level microvm the template is the small root of tests/shared/slim_root.py, since the machine's own files may be too large for an image."""
import os
import subprocess

import harness
import level
import slim_root

TEMPLATE = f"at-{level.LEVEL}"
for path in ("/sandboxes", "/v2/sandboxes"):
    level.CREATES.pop(path, None)  # the template has the level: nothing is added to what clients send
LONG = 240  # seconds of the first request, which boots a guest


class Leveled(harness.Server):
    def __init__(self, *args, **settings):
        if level.LEVEL != "container":
            settings.setdefault("pool_started_size", 0)  # tests count cells
        if level.LEVEL == "microvm":
            settings.setdefault("memory_default", "256M")
        super().__init__(*args, **settings)
        if level.LEVEL != "container" and self.uid is None and "template" not in self.settings:
            self.add_template()

    def add_template(self):
        root = {"from": "host"}
        if level.LEVEL == "microvm":
            subprocess.run(["cp", "-a", slim_root.state(harness.ORIGINAL or self.program), os.path.join(self.state, "templates", TEMPLATE)], check=True)
            root = {"root": {"kind": "layers", "layers": [TEMPLATE]}}
        self.want(201, "POST", "/v1/templates", {"name": TEMPLATE, "level": level.LEVEL, **root})
        self.settings["template"] = TEMPLATE
        self.restart()
        first = self.want(201, "POST", "/v1/sessions", {}, timeout=LONG)["id"]  # so that no test waits for the template's guest
        self.ids.add(first)
        harness.equal(self.get(first)["level"], level.LEVEL)
        self.delete(first)
        harness.wait_for(lambda: not any(self.want(200, "GET", "/v1/node")["sessions"].values()), 30, "the end of the first session")
