"""state_base.py - what the kinds of state_kills.py have in common: requests that may fail because the server dies."""
import http.client
import urllib.parse

from harness import equal, wait_for


def quoted(name):
    return urllib.parse.quote(name, safe="")


class Kind:
    """One sort of state. work(rand) gives functions that run while a program is killed; look() is called after each kill,
    remove_all() at the end."""

    seconds = 0.25  # within which the kill comes
    key = ""  # of a tenant of its own, if it has one

    def __init__(self, server):
        self.server, self.whole, self.absent = server, 0, 0

    def ask(self, method, path, body=None, **more):
        """(status, body); (0, None) if the server died under it."""
        try:
            status, _, data = self.server.request(method, path, body, timeout=60, **{"key": self.key, **more})
            return status, data
        except (OSError, http.client.HTTPException, EOFError, ValueError):
            return 0, None

    def want(self, status, method, path, body=None, **more):
        return self.server.want(status, method, path, body, key=self.key, **more)

    def made(self, path, body=None, **more):
        """What a POST makes; a program that was killed is not there for a moment (503)."""
        answers = []

        def ask():
            answers.append(self.ask("POST", path, body, **more))
            return answers[-1][0] not in (0, 503)

        wait_for(ask, 30, f"an answer to POST {path}")
        equal(answers[-1][0], 201, f"POST {path}: {answers[-1][1]}")
        return answers[-1][1]

    def sessions(self):
        return [s["id"] for s in self.want(200, "GET", "/v1/sessions?ended=false&state=running,paused,stopped,pausing,resuming,creating")["sessions"]]

    def answers(self, session, command, want):
        """The session is up, or boots, and has what it should."""
        status, data = self.ask("POST", f"/v1/sessions/{session}/executions?wait=true", {"command": command, "timeout": "20s"})
        return status == 200 and data["stdout"] == want

    def wait_answers(self, session, command, want):
        wait_for(lambda: self.answers(session, command, want), 60, f"session {session} to answer {want!r} to {command}")

    def template_is_whole(self, name, command, want):
        """A session of a template that is there has all of its files."""
        status, _ = self.ask("GET", "/v1/templates/" + quoted(name))
        if status == 404:
            self.absent += 1
            return
        equal(status, 200, f"template {name}")
        made = self.made("/v1/sessions", {"template": name, "timeout": "2m"})["id"]
        self.wait_answers(made, command, want)
        self.want(204, "DELETE", f"/v1/sessions/{made}")
        self.whole += 1

    def end_sessions(self, but=()):
        for s in self.sessions():
            if s not in but:
                self.ask("DELETE", f"/v1/sessions/{s}")
        wait_for(lambda: not [s for s in self.sessions() if s not in but], 60, "the end of sessions")

    def remove_templates(self):
        def removed():
            self.end_sessions()
            for t in self.want(200, "GET", "/v1/templates")["templates"]:
                if t["bytes"]:
                    self.ask("DELETE", "/v1/templates/" + quoted(t["name"]))
            return self.want(200, "GET", "/v1/layers")["layers"] == []

        wait_for(removed, 60, "templates to go")

    def summary(self):
        return f"; {self.whole} whole, {self.absent} absent" if self.whole or self.absent else ""
