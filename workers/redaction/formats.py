"""Secrets that are recognised by their form: vendor prefixes, headers, URLs, PEM blocks."""

from __future__ import annotations

import re
from collections.abc import Callable

from workers.redaction.names import contains_any, is_placeholder, looks_random, normalised

Replace = Callable[[str], str]

_PEM = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}?PRIVATE KEY(?: BLOCK)?-----"
    r"(?:(?:(?!-----).)*+-----END [A-Z0-9 ]{0,40}?PRIVATE KEY(?: BLOCK)?-----"
    # Cut off before its end: the remaining lines of key material.
    r"|(?:(?:\s|\\[nrt])*+(?:[A-Za-z0-9+/=]{20,}+|(?:Proc-Type|DEK-Info):[^\n\\]*+))*+)",
    re.DOTALL,
)

_URL_PASSWORD = re.compile(r"(://[^\s/:@\"'<>`]{0,256}:)([^\s/\"'<>`]{1,256})(?=@)")
_URL_TOKEN = re.compile(r"(://)([A-Za-z0-9_\-.~%]{20,256})(?=@)")

_AUTHORIZATION = r"(authorization\\{0,3}[\"']?\s{0,3}[:=]\s{0,3}\\{0,3}(?:[bf]?[\"'])?"
_HEADER = re.compile(
    _AUTHORIZATION + r"(?P<scheme>(?:bearer|basic|token|apikey|key)[ \t]{1,4})?)"
    r"([^\s\"'`<>\\,;][^\s\"'`<>\\,;]*+)",
    re.IGNORECASE,
)
_SIGNED_HEADER = re.compile(
    _AUTHORIZATION + r"(?:digest|negotiate|aws4-hmac-sha256)[ \t]{1,4})([^\n'`<>\\]++)",
    re.IGNORECASE,
)
_COOKIE = re.compile(
    r"(\b(?:set-)?cookie\\{0,3}[\"']?\s{0,3}:\s{0,3}\\{0,3}[\"']?)"
    r"([^\s=;\"'\\]{1,64}+=[^\r\n\"'\\]*+)",
    re.IGNORECASE,
)
_SCHEME = re.compile(
    r"(\b(?:bearer|basic)[ \t]{1,4})([A-Za-z0-9._~+/\-]{12,}+={0,2})", re.IGNORECASE
)

_PREFIXED = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"sk-[A-Za-z0-9_\-]{16,}+"
    r"|gh[pousr]_[A-Za-z0-9]{16,}+"
    r"|github_pat_[A-Za-z0-9_]{16,}+"
    r"|xox[abeoprs]-[A-Za-z0-9\-]{10,}+|xapp-[A-Za-z0-9\-]{10,}+"
    r"|(?:AKIA|ASIA)[0-9A-Z]{16}(?![A-Za-z0-9])"
    r"|AIza[0-9A-Za-z_\-]{30,}+|ya29\.[0-9A-Za-z_\-]{16,}+|GOCSPX-[0-9A-Za-z_\-]{16,}+"
    r"|(?:tvly|glpat|pplx|gsk|xai|nvapi|lsv2_pt)[\-_][A-Za-z0-9_\-]{16,}+"
    r"|(?:hf|npm|r8|ntn|dckr_pat|lin_api|shpat|dop_v1|whsec)_[A-Za-z0-9]{16,}+"
    r"|(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{10,}+"
    r"|pypi-[A-Za-z0-9_\-]{30,}+"
    r"|AGE-SECRET-KEY-1[0-9A-Z]{30,}+"
    r"|https://hooks\.slack\.com/[A-Za-z0-9/_\-]{16,}+"
    r"|https://(?:[a-z]+\.)?discord(?:app)?\.com/api/webhooks/[A-Za-z0-9/_\-]{16,}+"
    r"|eyJ[A-Za-z0-9_\-]{8,}+\.[A-Za-z0-9_\-]{8,}+(?:\.[A-Za-z0-9_\-]*+){0,3}"
    r")"
)
_DIGITS_OF_A_KEY = 2

# Words that every match of the header patterns contains.
_COOKIE_HINTS = ("cookie",)
_AUTHORIZATION_HINTS = ("authorization",)
_SCHEME_HINTS = ("bearer", "basic")


def redact_formats(text: str, replace: Replace) -> str:
    """Put `replace(secret)` in place of each secret in `text` that its form reveals."""
    # Replacements contain none of the hints, so these are searched for once.
    plain = normalised(text)
    has_authorization = contains_any(plain, _AUTHORIZATION_HINTS)
    text = _PEM.sub(lambda found: replace(found[0]), text)
    text = _URL_PASSWORD.sub(lambda found: _second(found, replace), text)
    if contains_any(plain, _COOKIE_HINTS):
        text = _COOKIE.sub(lambda found: _second(found, replace), text)
    if has_authorization:
        text = _SIGNED_HEADER.sub(lambda found: _second(found, replace), text)
    text = _URL_TOKEN.sub(lambda found: _if_random(found, replace), text)
    if contains_any(plain, _SCHEME_HINTS):
        text = _SCHEME.sub(lambda found: _if_random(found, replace), text)
    if has_authorization:
        text = _HEADER.sub(lambda found: _header(found, replace), text)
    text = _PREFIXED.sub(lambda found: _prefixed(found, replace), text)
    # Takes a third of a second, so only processes that redact load it.
    from workers.redaction.detectors import DETECTED  # noqa: PLC0415

    for pattern in DETECTED:
        text = pattern.sub(lambda found: _bordered(found, replace), text)
    return text


def _second(match: re.Match[str], replace: Replace) -> str:
    return match[0] if is_placeholder(match[2]) else match[1] + replace(match[2])


def _if_random(match: re.Match[str], replace: Replace) -> str:
    return _second(match, replace) if looks_random(match[2], at_least=12) else match[0]


def _header(match: re.Match[str], replace: Replace) -> str:
    """Replace a header's value; without a scheme it may be prose about authorization."""
    value = match[3]
    if is_placeholder(value) or not (match["scheme"] or looks_random(value, at_least=8)):
        return match[0]
    return match[1] + replace(value)


def _prefixed(match: re.Match[str], replace: Replace) -> str:
    """Replace a key with a vendor's prefix.

    Words joined by hyphens may begin like a key (`sk-`, `npm_`), but hold no digits.
    """
    digits = sum(character.isdigit() for character in match[0])
    return replace(match[0]) if digits >= _DIGITS_OF_A_KEY else match[0]


def _bordered(match: re.Match[str], replace: Replace) -> str:
    """Replace a match, but not inside a longer run, which is a hash or encoded bytes.

    A replacement beside it counts like the text that it replaced.
    """
    before = match.string[max(0, match.start() - 1) : match.start()]
    after = match.string[match.end() : match.end() + 1]
    inside = _is_latin(before) or before == "]" or _is_latin(after) or after == "["
    return match[0] if inside else replace(match[0])


def _is_latin(character: str) -> bool:
    return character.isascii() and character.isalnum()
