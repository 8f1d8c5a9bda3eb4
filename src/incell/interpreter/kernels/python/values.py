"""values.py - JSON text of values that users have: numbers of numpy, dates, keys that are no strings.

The text is ASCII, has no NaN (null instead) and no half of a surrogate pair (U+FFFD instead), so that any
reader of JSON takes it."""
import dataclasses
import datetime
import enum
import json
import math
import uuid

DEPTH_MAX = 60         # cordon-interpreter takes 64, with the message around the value
ITEMS_MAX = 4 << 20
CONTAINERS = (list, tuple, dict)


class Encoded:
    """A value that is JSON text already."""
    __slots__ = ("text",)

    def __init__(self, text):
        self.text = text


def encode(value, fallback=None):
    """JSON text of the value. What has no JSON form becomes fallback(it); without one, TypeError."""
    if isinstance(value, CONTAINERS):
        check_size(value, DEPTH_MAX, [ITEMS_MAX])
    odd = []

    def on_odd(one):
        odd.append(None)
        return plain(one, fallback)

    try:
        text = json.dumps(value, allow_nan=False, default=on_odd, separators=(",", ":"))
        if odd:  # what they became has not been looked at
            check_size([json.loads(text)], DEPTH_MAX + 1, [ITEMS_MAX])
    except (ValueError, TypeError):
        text = json.dumps(clean(value, fallback), allow_nan=False, separators=(",", ":"))
    if "\\ud" in text:  # perhaps a lone surrogate
        text = json.dumps(clean(json.loads(text), fallback), separators=(",", ":"))
    return text


def check_size(value, depth, left):
    """TypeError if it is nested too deeply or has too many items; those that occur twice count twice."""
    left[0] -= len(value)
    if depth == 0 or left[0] < 0:
        raise TypeError("too large")
    for inner in value.values() if isinstance(value, dict) else value:
        if isinstance(inner, CONTAINERS):
            check_size(inner, depth - 1, left)


def plain(value, fallback):
    """A value of no JSON type, as one that has, or that clean() can take further."""
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat() if value == value else None  # NaT is not equal to itself
    if isinstance(value, uuid.UUID):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    module = type(value).__module__.partition(".")[0]
    if module == "numpy" and hasattr(value, "tolist"):
        listed = value.tolist()
        if isinstance(listed, (bool, int, float, str, list, type(None), datetime.date)):
            return listed
        return str(value)
    if module == "pandas" and type(value).__name__ in ("NAType", "NaTType"):
        return None
    if fallback is None:
        raise TypeError("no JSON form: " + type(value).__name__)
    return fallback(value)


def clean_text(text):
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def clean_key(key, fallback):
    if isinstance(key, str):
        return clean_text(key)
    if key is None or isinstance(key, (bool, int)):
        return json.dumps(key)
    if isinstance(key, float):
        return json.dumps(key) if math.isfinite(key) else "null"
    key = plain(key, fallback)
    if isinstance(key, (dict, list, tuple)):
        raise TypeError("no JSON form of a key")
    return clean_key(key, fallback)


def clean(value, fallback=None, depth=0):
    """A copy with JSON types only. Slow; encode() uses it when the fast way fails."""
    if depth > DEPTH_MAX:
        raise TypeError("nested too deeply")
    if isinstance(value, str):
        return clean_text(value)
    if value is None or isinstance(value, (bool, int)) and not isinstance(value, enum.Enum):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, dict):
        return {clean_key(key, fallback): clean(inner, fallback, depth + 1)
                for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [clean(inner, fallback, depth + 1) for inner in value]
    return clean(plain(value, fallback), fallback, depth + 1)
