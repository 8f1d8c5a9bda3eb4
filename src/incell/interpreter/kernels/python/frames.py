"""frames.py - a pandas DataFrame as column -> list."""
from . import values

CELLS_MAX = 1000000


def safe_text(value):
    try:
        return str(value)
    except Exception:
        return None


def column(series):
    if series.isna().any():
        series = series.astype(object).where(series.notna(), None)
    return values.encode(series.tolist(), safe_text)


def frame_data(frame):
    """Encoded, or None if it is too large or cannot be written."""
    try:
        rows, columns = frame.shape
        if rows * columns > CELLS_MAX:
            return None
        texts = {}
        for i, name in enumerate(frame.columns):
            texts[name if isinstance(name, str) else str(name)] = column(frame.iloc[:, i])
        return values.Encoded("{" + ",".join(values.encode(name) + ":" + text
                                             for name, text in texts.items()) + "}")
    except Exception:
        return None
