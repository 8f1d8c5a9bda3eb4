"""environment.py - variables of the session, and those of one call, which are taken back after it."""
import os
import sys
import time

environ = os.environ  # the user's code may give os another one


# A cell is thrown away: pip may install beside the packages of the system, and as root.
DEFAULTS = {"PIP_BREAK_SYSTEM_PACKAGES": "1", "PIP_ROOT_USER_ACTION": "ignore", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def set_defaults():
    for name, text in DEFAULTS.items():
        environ.setdefault(name, text)


def usable(variables):
    return {name: text for name, text in variables.items()
            if isinstance(name, str) and isinstance(text, str) and name and "=" not in name
            and "\0" not in name and "\0" not in text}


def notice(names):
    if "TZ" in names:
        time.tzset()


def set_session(variables):
    """Before the first code of the user: also what Python itself reads only when it starts."""
    variables = usable(variables)
    environ.update(variables)
    notice(variables)
    for path in reversed(variables.get("PYTHONPATH", "").split(os.pathsep)):
        if path and path not in sys.path:
            sys.path.insert(1, path)


def set_call(variables):
    """Returns what restore() needs."""
    variables = usable(variables)
    before = {name: environ.get(name) for name in variables}
    environ.update(variables)
    notice(variables)
    return before


def restore(before):
    for name, text in before.items():
        if text is None:
            environ.pop(name, None)
        else:
            environ[name] = text
    notice(before)
