#!/usr/bin/python3
"""cordon policy as a user types it: check, explain, merge and presets, without any server.

    test_command.py CORDON-CLIENT
"""
import json
import os
import random
import subprocess
import sys
import tempfile

CLIENT = os.path.abspath(sys.argv[1])
POLICY = {
    "version": 1,
    "extends": ["pypi", "github-read"],
    "rules": [
        "api.example.com:8443/v1/",
        {"name": "mine", "host": "*.example.org", "tls": "pass"},
        {"name": "shadowed", "host": "x.example.org"},
        {"cidr": "192.168.0.0/16", "ports": [22], "protocol": "tcp"},
    ],
}


def cordon(*words, text=None):
    done = subprocess.run([CLIENT, "policy", *words], input=text, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=20, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def good():
    with open("p.json", "w", encoding="utf-8") as f:
        json.dump(POLICY, f)


def check_tells_what_is_doubtful():
    good()
    code, out, _ = cordon("check", "p.json")
    assert code == 0, out
    assert "shadowed is never reached: mine decides before it" in out, out
    assert "192.168.0.0 is private address space" in out, out
    assert cordon("check", "--strict", "p.json")[0] == 1
    assert cordon("check", "-", text=json.dumps({"version": 1, "rules": ["a.test"]}))[:2] == (0, "1 rules, 0 warnings\n")


def check_warns_of_packages():
    for layer, document, words in (
        ("session", {"packages": {"min_age": "1d"}, "rules": [{"name": "mine", "host": "a.test", "tls": "pass"}]}, "mine: packages that come this way are not judged"),
        ("session", {"packages": {"mode": "pinned"}}, "nothing is pinned"),
        ("session", {"packages": {"registries": ["npm"], "scripts": "ask"}}, "packages.scripts: ask refuses, as deny does"),
        ("session", {"packages": {}}, "packages: lists no registry"),
        ("session", {"packages": {"own": ["npm:@a/*"]}}, "no private registry"),
        ("tenant", {"packages": {"min_age": "7d"}}, "without registries a lower layer"),
    ):
        code, out, err = cordon("check", "--layer", layer, "-", text=json.dumps(document))
        assert code == 0 and words in out and ", 1 warnings" in out, (out, err)
    assert cordon("check", "--strict", "-", text=json.dumps({"packages": {"registries": ["npm"], "min_age": "7d"}}))[0] == 0


def check_says_where_an_error_is():
    for document, words in (
        ({"version": 1, "rules": ["a.test", {"hots": "x"}]}, "rules[1]: unknown member 'hots'"),
        ({"version": 1, "private": ["10.0.0.0/8"]}, "private: is allowed in the node's policy only"),
        ("{\"version\":1,\n\"rules\":[}", "line 2"),
        ("", "is empty"),
    ):
        code, out, err = cordon("check", "-", text=document if isinstance(document, str) else json.dumps(document))
        assert code == 1 and words in err and out == "", (code, out, err)
    assert cordon("check", "--layer", "node", "-", text='{"version":1,"private":["10.0.0.0/8"]}')[0] == 0
    assert cordon("check", "/nowhere/p.json")[0] == 1


def json_is_the_same():
    good()

    def told(*words, **more):
        code, out, _ = cordon(*words, "--json", **more)
        return code, json.loads(out)

    code, got = told("check", "p.json")
    assert (code, got["valid"], got["packages"]) == (0, True, False) and any("shadowed is never" in w for w in got["warnings"]), got
    text = cordon("check", "p.json")[1]
    assert f"{got['rules']} rules, {len(got['warnings'])} warnings" in text, text
    code, got = told("check", "-", text='{"version":1,"rules":[5]}')
    assert (code, got["valid"]) == (1, False) and "rules[0]" in got["error"], got
    for words, code in ((["--preset", "pypi", "--host", "pypi.org", "--path", "/simple/"], 0), (["--preset", "none", "--host", "pypi.org"], 1),
                        (["--policy", "p.json", "--host", "192.168.1.1", "--port", "22"], 1)):
        said, got = told("explain", *words)
        assert (said, got["allowed"]) == (code, code == 0), got
        lines = [f"{s['stage']:11} {s['text']}" for s in got["steps"]]
        assert lines == cordon("explain", *words)[1].splitlines(), lines
    code, got = told("explain", "--preset", "pypi", "--host", b"\xff.example")
    assert (code, got["allowed"]) == (1, False) and "neither a name nor an address" in got["error"], got
    listed = {p["name"]: p["summary"] for p in told("presets")[1]["presets"]}
    assert [f"{n:12} {s}" for n, s in listed.items()] == cordon("presets")[1].splitlines(), listed


def explains(words, code, *parts):
    got, out, err = cordon("explain", *words)
    assert got == code and all(p in out for p in parts), (got, out, err)


def explain_goes_through_the_stages():
    good()
    mine = ["--policy", "p.json", "--host"]
    explains([*mine, "evil.test"], 1, "name        evil.test: refused: ", "no rule matches")
    with open("hidden.json", "w", encoding="ascii") as f:
        f.write('{"refused_names": "nxdomain"}')
    explains(["--policy", "hidden.json", "--host", "evil.test"], 1, "name        evil.test: does not exist: ", "no rule matches")
    explains([*mine, "Api.Example.com."], 1, "name", "exists", "api.example.com:443 is not allowed")
    explains([*mine, "api.example.com", "--port", "8443", "--path", "/v1/%78"], 0, "TLS is terminated", "GET /v1/x: allowed")
    explains([*mine, "api.example.com", "--port", "8443", "--path", "/v2"], 1, "request", "refused")
    explains([*mine, "a.example.org"], 0, "TLS is passed on", "(mine)")
    explains([*mine, "192.168.1.1", "--port", "22"], 1, "never connected to: it is private")
    push = ["--path", "/o/r.git/info/refs?service=git-receive-pack"]
    explains([*mine, "github.com", *push], 1, "reading only")
    explains([*mine, "github.com", "--path", "/o/r.git/info/refs?service=git-upload-pack"], 0, "(github read)")
    explains([*mine, "github.com", "--method", "POST", "--path", "/o/r.git/git-receive-pack"], 1, "github push")
    explains(["--preset", "pypi", "--host", "pypi.org", "--plain"], 0, "port 80", "(pypi)")
    explains(["--preset", "none", "--host", "pypi.org"], 1, "refused: ")
    assert cordon("explain", "--preset", "pypi", "--host", "0x7f.1")[0] == 1
    assert cordon("explain", "--preset", "pypi", "--host", "pypi.org", "--path", "/../x")[0] == 1
    assert cordon("explain", "--preset", "nope", "--host", "pypi.org")[0] == 2
    assert cordon("explain", "--preset", "pypi")[0] == 2


def check_names_packages():
    text = json.dumps({"packages": {"registries": ["npm"]}})
    assert cordon("check", "-", text=text)[:2] == (0, "packages, 0 rules, 0 warnings\n")


def explain_judges_packages_by_layer():
    with open("n.json", "w", encoding="utf-8") as f:
        json.dump({"packages": {"min_age": "7d", "deny": ["pypi:evil"]}}, f)
    with open("p.json", "w", encoding="utf-8") as f:
        json.dump({"packages": {"registries": ["npm"], "deny": ["npm:left-pad@1.3.0"], "scripts": "deny"}}, f)
    both = ["--node", "n.json", "--policy", "p.json", "--package"]
    explains([*both, "npm:left-pad@1.3.0", "--released", "30d"], 1, "node        allows it",
             "session     refuses it: left-pad 1.3.0 is denied", "result      refused by session packages.deny[0]")
    explains([*both, "npm:left-pad@1.3.1", "--released", "3h"], 1, "is 3 h old, this node wants 7 days", "session     allows it",
             "refused by node packages.min_age")
    explains([*both, "npm:left-pad@1.3.1", "--released", "2020-01-31"], 0, "from        npm (registry.npmjs.org)", "result      allowed")
    explains([*both, "npm:left-pad@1.3.1", "--released", "2020-01-31", "--scripts"], 1, "packages.scripts")
    explains([*both, "npm:left-pad@1.3.1"], 1, "depends on its age or install code", "not decided")
    explains([*both, "npm:left-pad"], 0, "result      the name is allowed; each version is judged by itself (npm:left-pad@VERSION)")
    explains([*both, "pypi:requests"], 1, "requests is refused: pypi is not among the registries of this policy (npm)")
    code, _, err = cordon("explain", "--package", "npm:a")
    assert code == 2 and "--policy FILE" in err, (code, err)
    explains([*both, "npm:a@1", "--direct"], 1, "no registry", "has no known age")
    explains(["--preset", "npm", "--package", "npm:a"], 0, "no layer has packages")
    explains(["--policy", "p.json", "--host", "registry.npmjs.org", "--path", "/a"], 0, "packages.registries")
    assert cordon("explain", *both, "left-pad")[0] == 1
    assert cordon("explain", *both, "npm:a@1", "--released", "soon")[0] == 1


def merge_keeps_layers():
    good()
    with open("n.json", "w", encoding="utf-8") as f:
        json.dump({"version": 1, "ceiling": ["pypi.org"], "rules": [{"host": "bad.test", "action": "deny"}]}, f)
    code, out, err = cordon("merge", "--node", "n.json", "--session", "p.json")
    assert code == 0, err
    document = json.loads(out)
    assert [r["layer"] for r in document["rules"][:2]] == ["node", "session"], out
    assert len(document["ceilings"]["node"]) == 1 and document["merged"] is True, out
    explains(["--node", "n.json", "--policy", "p.json", "--host", "github.com"], 1, "node's policy")
    explains(["--node", "n.json", "--policy", "p.json", "--host", "pypi.org"], 0, "(pypi)")


KINDS = {"fork_burst": (200, "warning", 1000000), "memory_jump": (75, "info", 100), "output_flood": (67108864, "info", 1 << 40),
         "refused_names": (64, "warning", 1024), "refused_hosts": (32, "warning", 1024), "package": (1, "warning", 1000000),
         "cell_fault": (1, "critical", 1000000), "refused_calls": (1000, "warning", 1000000000), "escape_attempt": (1, "critical", 1000000)}
SEVERITIES, ACTIONS = ["info", "warning", "critical"], ["none", "pause", "end"]


def random_alarms(rng):
    rules = {}
    for kind in rng.sample(sorted(KINDS), rng.randrange(5)):
        rule = {"threshold": rng.choice([0, 1, 2, 50, KINDS[kind][0], KINDS[kind][2]]), "severity": rng.choice(SEVERITIES), "action": rng.choice(ACTIONS)}
        rule["threshold"] = min(rule["threshold"], KINDS[kind][2])
        rules[kind] = {k: v for k, v in rule.items() if rng.random() < 0.7}
    return rules


def strictest(layers):
    """The model: of all layers that name a kind the lowest threshold (0 is never), the highest severity, the strongest action."""
    result = {}
    for kind, (threshold, severity, _) in KINDS.items():
        rules = [layer[kind] for layer in layers if kind in layer]
        if rules:
            thresholds = [r.get("threshold", threshold) for r in rules]
            result[kind] = {"threshold": min([t for t in thresholds if t > 0], default=0),
                            "severity": max((r.get("severity", severity) for r in rules), key=SEVERITIES.index),
                            "action": max((r.get("action", "none") for r in rules), key=ACTIONS.index)}
    return result


def alarms_of_layers_are_the_strictest():
    rng = random.Random(29)
    for case in range(60):
        layers = {layer: random_alarms(rng) for layer in ("node", "tenant", "session")}
        for layer, alarms in layers.items():
            with open(f"{layer}.json", "w", encoding="utf-8") as f:
                json.dump({"version": 1, "alarms": alarms}, f)
        code, out, err = cordon("merge", "--node", "node.json", "--tenant", "tenant.json", "--session", "session.json")
        assert code == 0, err
        assert json.loads(out)["alarms"] == strictest(layers.values()), (case, layers, out)
    with open("none.json", "w", encoding="utf-8") as f:
        f.write("{}")
    assert "alarms" not in json.loads(cordon("merge", "--session", "none.json")[1])
    for bad, words in (({"fork": {}}, "alarms: unknown member 'fork'"), ({"fork_burst": {"threshold": -1}}, "alarms.fork_burst.threshold: must be a whole number from 0 to 1000000"),
                       ({"memory_jump": {"threshold": 101}}, "from 0 to 100"), ({"package": {"threshold": 1.5}}, "alarms.package.threshold"),
                       ({"package": {"action": "kill"}}, "alarms.package.action: must be one of: none, pause, end"), ({"package": {"severity": 1}}, "alarms.package.severity"),
                       ({"package": {"actions": "end"}}, "did you mean 'action'?"), ({"package": 1}, "must be an object"), ([], "must be an object"), (None, "must be an object")):
        code, out, err = cordon("check", "-", text=json.dumps({"alarms": bad}))
        assert code == 1 and words in err, (bad, code, out, err)


def presets_are_documents():
    code, out, _ = cordon("presets")
    names = [line.split()[0] for line in out.splitlines()]
    assert code == 0 and {"none", "pypi", "npm", "debian", "github-read", "openai", "anthropic"} <= set(names), out
    for name in names:
        code, out, _ = cordon("presets", name)
        assert code == 0 and json.loads(out)["version"] == 1
        assert cordon("check", "--strict", "-", text=out)[0] == 0, name
    assert cordon("presets", "nope")[0] == 2


def is_found_like_other_verbs():
    done = subprocess.run([CLIENT, "--verbs"], stdout=subprocess.PIPE, timeout=20, text=True, check=True)
    assert "cordon policy" in done.stdout
    assert cordon("--help")[0] == 0 and cordon("nonsense")[0] == 2 and cordon()[0] == 2


TESTS = [check_tells_what_is_doubtful, check_warns_of_packages, check_says_where_an_error_is, explain_goes_through_the_stages, explain_judges_packages_by_layer,
         check_names_packages,
         merge_keeps_layers,
         alarms_of_layers_are_the_strictest,
         presets_are_documents, is_found_like_other_verbs, json_is_the_same]


def main():
    failed = 0
    print(f"1..{len(TESTS)}")
    for i, test in enumerate(TESTS, 1):
        with tempfile.TemporaryDirectory() as place:
            os.chdir(place)
            try:
                test()
                print(f"ok {i} - {test.__name__.replace('_', ' ')}")
            except (AssertionError, subprocess.SubprocessError, ValueError) as e:
                failed += 1
                print("#", repr(e).replace("\n", "\n# "))
                print(f"not ok {i} - {test.__name__.replace('_', ' ')}")
            os.chdir("/")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
