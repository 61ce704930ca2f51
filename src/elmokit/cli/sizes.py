"""Numbers as people read them."""


def in_bytes(number: int) -> str:
    """A number of bytes.

    >>> in_bytes(374434792), in_bytes(12)
    ('374 MB', '12 bytes')
    """
    value, unit = _scaled(number)
    return f"{value} {unit}B" if unit else f"{value} bytes"


def in_short(number: int) -> str:
    """A large number by its first digits.

    >>> in_short(93600864), in_short(512)
    ('93.6M', '512')
    """
    return "".join(_scaled(number))


def _scaled(number: int) -> tuple[str, str]:
    value, units = float(number), ["", "k", "M", "G", "T"]
    while value >= 999.5 and len(units) > 1:
        value /= 1000
        del units[0]
    return f"{value:.3g}", units[0]


def in_time(seconds: float) -> str:
    """Hours, minutes and seconds: 1:02:03."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"
