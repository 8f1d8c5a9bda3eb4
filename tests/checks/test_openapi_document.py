#!/usr/bin/python3
"""Goal: clients can be generated from doc/openapi.yaml: each operation has a tag and a name, each choice a type, each body a
named schema, each error code a place in the list. And the schema of policies is that of the reader. test_openapi_document.py CORDON"""
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[0:0] = [str(ROOT / "tests/server"), str(ROOT / "tests/shared")]
from openapi_document import DOC, misfit, operations, resolve  # noqa: E402

SCHEMAS = DOC["components"]["schemas"]
INTERNAL = {"lost", "timeout", "peer_died", "damaged"}  # reasons that clients are told as gone, unavailable and internal


def nodes(value, where=""):
    yield value, where
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from nodes(inner, f"{where}/{key}")


def bodies():
    """(place, schema, media) of all bodies and answers of operations."""
    for (method, path), op in operations().items():
        answers = [("request", op.get("requestBody", {}))] + [(status, resolve(a)) for status, a in op["responses"].items()]
        for what, body in answers:
            for kind, media in (body.get("content") or {}).items():
                yield f"{method} {path} {what} {kind}", media.get("schema", {}), media


def test_tags():
    declared = [t["name"] for t in DOC["tags"]]
    names = [op["operationId"] for op in operations().values()]
    assert len(names) == len(set(names)), "an operationId twice"
    for place, op in operations().items():
        assert len(op.get("tags", [])) == 1 and op["tags"][0] in declared, f"{place}: {op.get('tags')}"
    assert {op["tags"][0] for op in operations().values()} == set(declared), "a tag without an operation"
    assert DOC["info"]["license"]["identifier"] == "Apache-2.0"


def test_choices_have_types():
    bad = [where for value, where in nodes(DOC) if isinstance(value, dict) and isinstance(value.get("enum"), list) and "type" not in value]
    assert not bad, bad


def test_bodies_have_names():
    bad = [place for place, schema, _ in bodies() if schema.get("type") == "object" or "properties" in schema or "allOf" in schema]
    assert not bad, bad


def test_references_lead_somewhere():
    for value, where in nodes(DOC):
        if isinstance(value, dict) and isinstance(value.get("$ref"), str):
            target = DOC
            for part in value["$ref"].removeprefix("#/").split("/"):
                assert part in target, f"{where}: {value['$ref']}"
                target = target[part]


def test_examples_fit():
    found = [(place, schema, media["example"]) for place, schema, media in bodies() if "example" in media]
    assert len(found) >= 9, f"{len(found)} examples"
    for place, schema, example in found:
        assert misfit(example, schema, "example") is None, f"{place}: {misfit(example, schema, 'example')}"


def test_error_codes():
    """Those of the reasons, and the words that the interfaces use."""
    reasons = set(re.findall(r'\{ "(\w+)", ERR_', (ROOT / "src/lib/base/err_reason.c").read_text())) - INTERNAL
    words = set(re.findall(r'\{ \d+, "(\w+)", (?:true|false) \}', (ROOT / "src/front/web/reply.c").read_text()))
    words |= set(re.findall(r'^\t\t\d{3}, "(\w+)"', (ROOT / "src/front/web/reply.c").read_text(), re.M))
    for path in (ROOT / "src/front/rest").glob("*.c"):
        words |= set(re.findall(r'reply_code\(\w+, \d+, "(\w+)"', path.read_text()))
    listed = SCHEMAS["ErrorCode"]["enum"]
    assert len(listed) == len(set(listed)), "a code twice"
    assert reasons | words <= set(listed), f"not listed: {(reasons | words) - set(listed)}"
    assert set(listed) - reasons - words <= {"method_not_allowed", "unsupported_media", "unauthorized", "forbidden"}, set(listed) - reasons - words


# --- policies


def members(path, name):
    text = (ROOT / path).read_text()
    return set(re.findall(r'"(\w+)"', re.search(rf"\b{name}\[\] = \{{(.*?)\}};", text, re.S)[1]))


def rule():
    return SCHEMAS["NetworkRule"]["oneOf"][1]["properties"]


def test_members_of_policies():
    read = "src/lib/policy/policy_read.c"
    assert set(SCHEMAS["NetworkPolicy"]["properties"]) == members(read, "single")
    assert set(SCHEMAS["MergedPolicy"]["properties"]) == members(read, "merged")
    text = (ROOT / "src/lib/policy/policy_rule.c").read_text()
    known = re.search(r'= \{\s*("name",\s*"class".*?)\};', text, re.S)[1]
    assert set(rule()) == set(re.findall(r'"(\w+)"', known))
    packages = (ROOT / "src/lib/policy/packages_read.c").read_text()
    known = re.search(r'= \{\s*("registries".*?)\};', packages, re.S)[1]
    assert set(SCHEMAS["PackagePolicy"]["properties"]) == set(re.findall(r'"(\w+)"', known)) | {"lockfiles"}  # which become pins


def test_policies_fit(cordon):
    schema = {"$ref": "#/components/schemas/NetworkPolicy"}
    names = [line.split()[0] for line in subprocess.run([cordon, "policy", "presets"], capture_output=True, text=True, check=True).stdout.splitlines()]
    assert len(names) > 5
    texts = {n: subprocess.run([cordon, "policy", "presets", n], capture_output=True, text=True, check=True).stdout for n in names}
    texts |= {f"doc/policy.md {i}": t for i, t in enumerate(re.findall(r"```json\n(.*?)```", (ROOT / "doc/policy.md").read_text(), re.S))}
    for name, text in texts.items():
        if text.strip():
            assert misfit(json.loads(text), schema, "policy") is None, f"{name}: {misfit(json.loads(text), schema, 'policy')}"
    for bad in ({"rule": []}, {"rules": [{"hosts": "a"}]}, {"rules": [{"host": "a", "action": "maybe"}]}, {"packages": {"registries": ["pip"]}},
                {"limits": {"bytes": 1}}, {"packages": {"scripts": "never"}}, {"rules": ["a", 1]}):
        assert misfit(bad, schema, "policy") is not None, f"{bad} fits"


def test_the_schema_for_editors():
    made = json.loads(subprocess.run([ROOT / "tools/policy-schema"], capture_output=True, text=True, check=True).stdout)
    names = {v["$ref"] for v, _ in nodes(made) if isinstance(v, dict) and "$ref" in v}
    assert names and all(n.startswith("#/$defs/") and n.split("/")[-1] in made["$defs"] for n in names), names
    assert "rules" in made["properties"] and "NetworkRule" in made["$defs"]


def main():
    tests = {n: f for n, f in globals().items() if n.startswith("test_")}
    print(f"1..{len(tests)}")
    bad = 0
    for i, (name, function) in enumerate(tests.items(), 1):
        try:
            function(*([sys.argv[1]] if function.__code__.co_argcount else []))
            print(f"ok {i} - {name[5:]}")
        except AssertionError as e:
            bad += 1
            print(f"not ok {i} - {name[5:]}\n# line {e.__traceback__.tb_next.tb_lineno}: {e}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
