"""openapi_document.py - doc/openapi.yaml: its operations, and whether an answer has the shape that it describes."""
import pathlib
import re

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOC = yaml.safe_load((ROOT / "doc/openapi.yaml").read_text())
METHODS = ("get", "post", "put", "patch", "delete")


def resolve(node):
    while isinstance(node, dict) and "$ref" in node:
        target = DOC
        for part in node["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        node = target
    return node


def operations():
    return {(m.upper(), path): op for path, item in DOC["paths"].items() for m, op in item.items() if m in METHODS}


def misfit(value, schema, where="answer"):
    """What is wrong with a value, or None. Only the part of JSON Schema that the document uses."""
    schema = resolve(schema)
    if "oneOf" in schema:
        tries = [misfit(value, s, where) for s in schema["oneOf"]]
        return None if None in tries else tries[0]
    for part in schema.get("allOf", []):
        wrong = misfit(value, part, where)
        if wrong:
            return wrong
    if "enum" in schema and value not in schema["enum"]:
        return f"{where}: {value!r} is none of {schema['enum']}"
    kinds = schema.get("type")
    if kinds is not None:
        kinds = kinds if isinstance(kinds, list) else [kinds]
        is_of = {"object": isinstance(value, dict), "array": isinstance(value, list), "string": isinstance(value, str),
                 "boolean": isinstance(value, bool), "null": value is None,
                 "integer": isinstance(value, int) and not isinstance(value, bool),
                 "number": isinstance(value, (int, float)) and not isinstance(value, bool)}
        if not any(is_of[k] for k in kinds):
            return f"{where}: {value!r} is no {kinds}"
    if schema.get("format") == "date-time" and value is not None:
        if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", value):
            return f"{where}: {value!r} is no time"
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        for name in schema.get("required", []):
            if name not in value:
                return f"{where}: {name} is missing"
        for name, inner in value.items():
            if name in properties:
                wrong = misfit(inner, properties[name], f"{where}.{name}")
            elif isinstance(schema.get("additionalProperties"), dict):
                wrong = misfit(inner, schema["additionalProperties"], f"{where}.{name}")
            elif schema.get("additionalProperties") is False or ("properties" in schema and where == "answer"
                                                                 and "allOf" not in schema and not PARTIAL):
                wrong = f"{where}: {name} is not documented"
            else:
                wrong = None
            if wrong:
                return wrong
    if isinstance(value, list) and "items" in schema:
        for i, inner in enumerate(value):
            wrong = misfit(inner, schema["items"], f"{where}[{i}]")
            if wrong:
                return wrong
    return None


PARTIAL = False  # inside allOf each part knows only its own members


def check_shape(value, schema):
    global PARTIAL
    PARTIAL = "allOf" in resolve(schema)
    return misfit(value, schema)
