"""leveled.py - a server whose default template has the level of the suite (CORDON_TEST_LEVEL): E2B's and MCP's clients and `cordon create`
name no level in tests, so it is the operator's setting `template` that gives their sessions one, as doc/e2b.md has it.

At level microvm the template is the small root of tests/shared/slim_root.py, since the machine's own files may be too large for an image."""
import os

import harness
import languages_root
import level

TEMPLATE = {"container": "host", "gvisor": "at-gvisor", "microvm": level.TEMPLATE}[level.LEVEL]
INTERPRETER = f"interpreter-at-{level.LEVEL}" if level.LEVEL != "container" else "code-interpreter-v1"
for path in ("/sandboxes", "/v2/sandboxes"):
    level.CREATES.pop(path, None)  # the template has the level: nothing is added to what clients send
SERVES_CODE = {
    "interpreter": True, "start_restart": True,
    "start_command": "/opt/cordon/bin/cordon-interpreter serve", "ready_command": "/opt/cordon/bin/cordon-interpreter ready",
}  # fmt: skip
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

    def root(self, name, made):
        """Of a template: the machine's files, or a directory where these may be too large."""
        if level.LEVEL != "microvm":
            return {"from": "host"}
        level.copy_root(harness.ORIGINAL or self.program, made, os.path.join(self.state, "templates", name))
        return {"root": {"kind": "layers", "layers": [name]}}

    def add_interpreter(self, root=None):
        """The template INTERPRETER: code-interpreter-v1 with the level. root: of what, all languages if not given."""
        if level.LEVEL == "container":
            return
        root = root or self.root(INTERPRETER, languages_root)
        self.want(201, "POST", "/v1/templates", {"name": INTERPRETER, "level": level.LEVEL, **SERVES_CODE, **root})
        self.end_of_first(template=INTERPRETER)

    def end_of_first(self, **spec):
        """Makes a session and ends it, so that no test waits for the guest of the template."""
        first = self.want(201, "POST", "/v1/sessions", spec, timeout=LONG)["id"]
        self.ids.add(first)
        harness.equal(self.get(first)["level"], level.LEVEL)
        self.delete(first)
        harness.wait_for(lambda: not any(self.want(200, "GET", "/v1/node")["sessions"].values()), 30, "the end of the first session")

    def add_template(self):
        if level.LEVEL == "gvisor":  # else level.prepare() has made it
            self.want(201, "POST", "/v1/templates", {"name": TEMPLATE, "level": level.LEVEL, "from": "host"})
        self.settings["template"] = TEMPLATE
        self.restart()
        self.end_of_first(template=TEMPLATE)


class Interpreted(Leveled):
    """With the template INTERPRETER, which has the files of the default one."""

    def __init__(self, *args, **settings):
        super().__init__(*args, **settings)
        self.add_interpreter({"from": level.TEMPLATE})
