"""fields.py - a result message from a MIME bundle, as IPython's formatters give it.

Known MIME types have fields of their own, all others go into "extra". A message is bounded: text is cut,
and fields that are too large are left out, with a line about it on stderr."""
import base64

from . import values

TEXT_MAX = 1 << 20      # characters of "text"
MESSAGE_MAX = 24 << 20  # bytes; cordon-interpreter takes 32 MiB

TEXTS = {
    "text/plain": "text",
    "text/html": "html",
    "text/markdown": "markdown",
    "image/svg+xml": "svg",
    "text/latex": "latex",
    "application/javascript": "javascript",
}
BINARIES = {
    "image/png": "png",
    "image/jpeg": "jpeg",
    "application/pdf": "pdf",
}
OBJECTS = {
    "application/json": "json",
    "e2b/data": "data",
    "e2b/chart": "chart",
}


def cut(text, most):
    if len(text) <= most:
        return text
    half = most // 2
    return "%s\n... (%d characters left out) ...\n%s" % (text[:half], len(text) - 2 * half, text[-half:])


def as_text(value):
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).decode("utf-8", "replace")
    return value if isinstance(value, str) else str(value)


def as_base64(value):
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(bytes(value)).decode("ascii")
    return str(value).replace("\n", "")


def safe_text(value):
    try:
        return str(value)
    except Exception:
        return "<" + type(value).__name__ + ">"


def plain_extra(value):
    if isinstance(value, (bytes, bytearray, memoryview)):
        return as_base64(value)
    return safe_text(value)


def encode_object(value, fallback):
    return value.text if isinstance(value, values.Encoded) else values.encode(value, fallback)


def encoded_fields(bundle):
    """Field name to JSON text. A value that cannot be written is left out."""
    fields, extra = {}, {}
    for mime, value in bundle.items():
        if value is None:
            continue
        try:
            if mime == "text/plain":
                fields["text"] = values.encode(cut(as_text(value), TEXT_MAX))
            elif mime in TEXTS:
                fields[TEXTS[mime]] = values.encode(as_text(value))
            elif mime in BINARIES:
                fields[BINARIES[mime]] = values.encode(as_base64(value))
            elif mime in OBJECTS:
                fields[OBJECTS[mime]] = encode_object(value, safe_text)
            else:
                extra[values.clean_text(str(mime))] = encode_object(value, plain_extra)
        except Exception:
            continue
    if extra:
        fields["extra"] = "{" + ",".join(values.encode(mime) + ":" + text
                                         for mime, text in extra.items()) + "}"
    return fields


def drop_large(fields):
    """Leaves out the largest fields until the rest fits; returns their names."""
    dropped = []
    while sum(map(len, fields.values())) > MESSAGE_MAX:
        name = max(fields, key=lambda name: len(fields[name]))
        dropped.append("%s (%d bytes)" % (name, len(fields.pop(name))))
    return dropped


def result_message(bundle, is_main):
    """JSON text of a result, or None if it has no field; and the names of fields that were too large."""
    fields = encoded_fields(bundle)
    dropped = drop_large(fields)
    if not fields:
        return None, dropped
    head = '{"type":"result","is_main_result":' + ("true" if is_main else "false")
    return head + "".join(',"%s":%s' % item for item in fields.items()) + "}", dropped
