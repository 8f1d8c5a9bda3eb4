#!/usr/bin/python3
"""openapi.py - doc/openapi.yaml is a valid document of OpenAPI 3.1, by a validator from npm.

    openapi.py PACKAGES

PACKAGES is where tools/sdk-packages puts the npm packages. A copy with a known mistake must be refused: a
validator that accepts everything proves nothing.
"""
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENT = (ROOT / "doc/openapi.yaml").read_text()
# An unquoted comma in a description ends the value: a second key follows.
MISTAKE = DOCUMENT.replace("description: 'It has ended, with status error'", "description: It has ended, with status error")
CHECK = """
import { createRequire } from 'node:module'
import { readFileSync } from 'node:fs'
const require = createRequire(process.argv[1] + '/')
const { Validator } = await import(require.resolve('@seriousme/openapi-schema-validator'))
const result = await new Validator().validate(readFileSync(0, 'utf8'))
if (!result.valid) console.log(JSON.stringify(result.errors, null, 1))
process.exit(result.valid ? 0 : 1)
"""


def validate(packages, text):
    return subprocess.run([f"{packages}/bin/node", "--input-type=module", "-e", CHECK, packages], input=text, capture_output=True,
                          text=True, timeout=120, check=False)


def main():
    packages = os.path.abspath(sys.argv[1])
    subprocess.run([ROOT / "tools/sdk-packages", packages], check=True, timeout=280)
    print("1..2")
    good = validate(packages, DOCUMENT)
    print(("ok" if good.returncode == 0 else "not ok") + " 1 - the document is valid")
    if good.returncode != 0:
        print("# " + (good.stdout + good.stderr)[-2000:].replace("\n", "\n# "))
    bad = validate(packages, MISTAKE)
    refused = MISTAKE != DOCUMENT and bad.returncode == 1 and "must NOT" in bad.stdout
    print(("ok" if refused else "not ok") + " 2 - a copy with a mistake is refused")
    if not refused:
        print("# " + (bad.stdout + bad.stderr)[-2000:].replace("\n", "\n# "))
    return 0 if good.returncode == 0 and refused else 1


sys.exit(main())
