#!/usr/bin/python3
"""expect.py - writes expected.json: what a Jupyter kernel (ipykernel) answers to the cells of cells.py.

Run by hand when cells.py changes; needs python3-ipykernel and the scientific packages. So the expectation of the test
does not come from what is tested. Text has one pair of outer quotes removed, as E2B's server does it.
"""
import json
import os
import re
import sys

from jupyter_client.manager import start_new_kernel

HERE = os.path.dirname(os.path.abspath(__file__))
FIELDS = {
    "text/plain": "text",
    "text/html": "html",
    "text/markdown": "markdown",
    "image/png": "png",
    "text/latex": "latex",
    "application/json": "json",
}


def cells():
    with open(os.path.join(HERE, "cells.py")) as f:
        parts = re.split(r"^# %%(.*)\n", f.read(), flags=re.M)[1:]
    return [{"needs": head.replace("needs", "").strip(), "code": code.rstrip("\n")} for head, code in zip(parts[::2], parts[1::2])]


def unquoted(text):
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text


def answer(client, code):
    """{stdout, error, text, formats} with only what there is."""
    got = {"stdout": "", "formats": []}

    def hook(message):
        kind, content = message["msg_type"], message["content"]
        if kind == "stream" and content["name"] == "stdout":
            got["stdout"] += content["text"]
        elif kind in ("execute_result", "display_data"):
            got["formats"].append(sorted(FIELDS[mime] for mime in content["data"]))
            if kind == "execute_result":
                got["text"] = unquoted(content["data"]["text/plain"])
        elif kind == "error":
            got["error"] = [content["ename"], content["evalue"]]

    # by default a kernel drops what comes shortly after an error
    client.execute_interactive(code, output_hook=hook, timeout=60, allow_stdin=False, stop_on_error=False)
    return {name: value for name, value in got.items() if value}


def main():
    manager, client = start_new_kernel(kernel_name="python3", cwd="/tmp")
    try:
        expected = [answer(client, cell["code"]) for cell in cells()]
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    with open(os.path.join(HERE, "expected.json"), "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(e, sort_keys=True) for e in expected) + "\n]\n")
    print(len(expected), "cells", file=sys.stderr)


if __name__ == "__main__":
    main()
