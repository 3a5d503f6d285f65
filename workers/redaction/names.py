"""Secrets that are known by the name in front of them: `FOO_TOKEN=`, `"api_key": `, `password: `.

Vendor formats miss every key that a company makes up for itself, so the value after a name that
ends in key, token, secret, password or credential is a secret. Prose and code are spared by the
look of the value: placeholders, types, calls and plain words stay.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from enum import Enum, auto

_KEY_OWNERS = (
    "api|access|secret|private|auth|encryption|encrypt|signing|sign|client|service|account|master"
    "|session|ssh|deploy|webhook|shared|storage|consumer|app|subscription|admin|license|hmac|jwt"
)
_STAGES = "prod|production|dev|development|staging|stage|test|live|old|new|value|raw|base64"

_NAME = (
    r"(?:(?P<password>password|passwd|passphrase|passcode|pwd)"
    r"|(?P<token>token|secret|credentials?)"
    rf"|(?P<key>(?:{_KEY_OWNERS})[_\- ]?key)"
    r"|(?P<other_key>[_\-]key|(?-i:(?<=[a-z0-9])Key)))"
    rf"(?:[_\-]?(?:\d{{1,2}}|{_STAGES}))?"
)
_SEPARATOR = (
    r"(?P<close>\\{0,3}[\"'`\]*]{0,3})"
    r"(?P<separator>[ \t]{0,8}"
    r"(?::[ \t]?(?:str|string|bytes|Optional\[str\]|str ?\| ?None)[ \t]{0,4}="
    r"|:=|=>|={1,3}|:|：)"
    r"\s{0,8})"
)
_VALUE = (
    r"(?:(?P<quote>\\{1,3}[\"'])(?P<escaped>[^\"'\\\n]++)"
    r"|[bfru]{0,2}\"(?P<double>(?:[^\"\\\n]|\\.)++)\""
    r"|[bfru]{0,2}'(?P<single>(?:[^'\\\n]|\\.)++)'"
    r"|`(?P<tick>[^`\n]++)`"
    r"|(?P<bare>[^\s\"'`,;&|<>(){}\[\]\\，。；、（）「」](?:[^\s\"'`,;&\\，。；、（）「」]|&(?!\w+=))*+))"
)
_NAMED = re.compile(_NAME + _SEPARATOR + _VALUE, re.IGNORECASE)
_FLAG = re.compile(
    r"--[a-z0-9\-]{0,30}(?:password|passwd|token|secret|api-?key)"
    r"(?P<separator>[ \t])[ \t]{0,4}(?P<bare>[^\s\"'`,;&|<>(){}\[\]\\\-][^\s\"'`,;]*+)",
    re.IGNORECASE,
)
_IN_PROSE = re.compile(
    r"(?:(?:password|passphrase|passcode|passwd)[ \t]{1,3}is[ \t:]{1,3}"
    r"|(?:密码|密碼|口令|密钥|密鑰|令牌|パスワード|비밀번호)"
    r"[ \t]{0,3}(?:是|为|為|は|:|：|=)[ \t]{0,3}"
    r"|(?:пароль|токен|contraseña|mot de passe|passwort|kennwort|senha|كلمة المرور|كلمة السر)"
    r"[ \t]{0,3}(?:[:=]|is)[ \t]{0,3})"
    r"[\"'`“「]?(?P<bare>[A-Za-z0-9!@#$%^&*_+=?~/.\-]{4,}+)",
    re.IGNORECASE,
)

# Words that every match of `_NAMED` and of `_IN_PROSE` contains: part of a name, and a separator.
_NAME_HINTS = (
    "password", "passwd", "passphrase", "passcode", "pwd", "token", "secret", "credential", "key",
)  # fmt: skip
_SEPARATOR_HINTS = (":", "=", "：")
_PROSE_HINTS = (
    "password", "passwd", "passphrase", "passcode", "密码", "密碼", "口令", "密钥", "密鑰", "令牌",
    "パスワード", "비밀번호", "contraseña", "mot de passe", "passwort", "kennwort", "senha",
    "كلمة المرور", "كلمة السر",
    # The parts of пароль and токен whose letters have no second lower-case form.
    "пар", "кен",
)  # fmt: skip

_NO_SECRET_NAME = re.compile(
    r"(?:^|[_\-.])(?:max|min|num|total|prompt|completion|input|output|eos|bos|pad|unk|cls|sep|mask"
    r"|stop|next|page|next_page|nextpage|continuation|sync|cancellation"
    r"|public|primary|foreign|sort|partition|cache|index|hash|routing|row|record|object"
    r"|idempotency|dedup|unique|group|lookup|translation)[_\-]?(?:token|key)$",
    re.IGNORECASE,
)
_NAME_BEFORE = re.compile(r"[A-Za-z0-9_.\-]*\Z")

_PLACEHOLDER = re.compile(
    r"\W*|<.*|\$.*|%\w+%|\{.*|\*.*|\.{2,}.*|x{3,}[x\-]*|your[ _\-].*|none|null|nil|undefined"
    r"|true|false|n/?a|yes|no|.*\[REDACTED\].*",
    re.IGNORECASE | re.DOTALL,
)
_TYPE_NAME = re.compile(
    r"(?:str|string|int|integer|number|bool|boolean|bytes|object|any|array|text|optional|required"
    r"|missing|hidden|masked|redacted|invalid|valid|expired|unset|empty|set)\W*",
    re.IGNORECASE,
)
_CALL = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*[(\[{]")
_OWN_NAME = re.compile(
    r"(?:\w+\.)*\w*(?:password|passwd|pwd|passphrase|token|secret|key|credentials?)", re.IGNORECASE
)
_ATTRIBUTE = re.compile(r"[A-Za-z_]+(?:\.[A-Za-z_]+)+")
_PATH = re.compile(r"(?:[/~.]|[A-Za-z]:[\\/])")


class Family(Enum):
    """Kinds of names by how certain they are: a password may be any word, a key's value may not."""

    PASSWORD = auto()
    TOKEN = auto()
    KEY = auto()
    OTHER_KEY = auto()


def family_of(name: str) -> Family | None:
    """Return the kind of secret that a field, header or variable called `name` holds, if any."""
    match = _FIELD_NAME.search(name)
    if match is None or _NO_SECRET_NAME.search(name):
        return None
    if match["word"]:
        return Family.TOKEN
    return _family(match)


_FIELD_NAME = re.compile(
    rf"(?:{_NAME}|(?P<word>(?:^|[_\-])(?:authorization|(?:set[_\-]?)?cookie|apikeys?)))\Z",
    re.IGNORECASE,
)


def is_placeholder(value: str) -> bool:
    """Return whether `value` is written instead of a secret: `<your key>`, `$TOKEN`, `****`,
    `None`."""
    return _PLACEHOLDER.fullmatch(value) is not None


def redact_named(text: str, replace: Callable[[str], str]) -> str:
    """Put `replace(secret)` in place of each secret in `text` that its name reveals."""
    # Replacements contain none of the hints, so these are searched for once.
    plain = normalised(text)
    if contains_any(plain, _NAME_HINTS) and contains_any(plain, _SEPARATOR_HINTS):
        text = _NAMED.sub(lambda found: _named(found, replace), text)
    text = _FLAG.sub(lambda found: _in_prose(found, replace), text)
    if contains_any(plain, _PROSE_HINTS):
        text = _IN_PROSE.sub(lambda found: _in_prose(found, replace), text)
    return text


def looks_random(value: str, *, at_least: int) -> bool:
    """Return True for `at_least` characters without a blank that hold letters and digits."""
    return (
        len(value) >= at_least
        and not any(character.isspace() for character in value)
        and any(character.isdigit() for character in value)
        and any(character.isalpha() for character in value)
    )


def _family(match: re.Match[str]) -> Family:
    if match["password"]:
        return Family.PASSWORD
    if match["token"]:
        return Family.TOKEN
    return Family.KEY if match["key"] else Family.OTHER_KEY


def _named(match: re.Match[str], replace: Callable[[str], str]) -> str:
    group = next(g for g in ("escaped", "double", "single", "tick", "bare") if match[g])
    value = match[group]
    if group == "bare":
        value = _without_closers(value)
    family = _family(match)
    name = _whole_name(match)
    if _NO_SECRET_NAME.search(name) or is_placeholder(value) or _TYPE_NAME.fullmatch(value):
        return match[0]
    if group == "bare":
        secret = _is_bare_secret(match, family, name, value)
    else:
        secret = _is_quoted_secret(family, value)
    if not secret:
        return match[0]
    start = match.start(group) - match.start()
    return match[0][:start] + replace(value) + match[0][start + len(value) :]


def _in_prose(match: re.Match[str], replace: Callable[[str], str]) -> str:
    value = match["bare"].rstrip(".!?")
    if is_placeholder(value) or value.isalpha() or len(value) < 4:
        return match[0]
    start = match.start("bare") - match.start()
    return match[0][:start] + replace(value) + match[0][start + len(value) :]


def _whole_name(match: re.Match[str]) -> str:
    before = match.string[max(0, match.start() - 40) : match.start()]
    prefix = _NAME_BEFORE.search(before)
    return (prefix[0] if prefix else "") + match[0][: match.start("close") - match.start()]


def _without_closers(value: str) -> str:
    """Leave out the characters that close a bracket or a sentence around a bare value."""
    end = len(value)
    while end > 1 and value[end - 1] in ")]}>.:*!?" and not _opens_for(value, end - 1):
        end -= 1
    return value[:end]


def _opens_for(value: str, place: int) -> bool:
    opener = {")": "(", "]": "[", "}": "{", ">": "<"}.get(value[place])
    return opener is not None and value.find(opener, 0, place) >= 0


def _is_quoted_secret(family: Family, value: str) -> bool:
    if family is Family.PASSWORD:
        return True
    if any(character.isspace() for character in value) or len(value) < 6:
        return False
    if family is Family.OTHER_KEY:
        return looks_random(value, at_least=16)
    is_plain_word = value.isalpha() and (value.islower() or value.istitle())
    return not is_plain_word or len(value) >= 16 or family is Family.KEY


def _is_bare_secret(match: re.Match[str], family: Family, name: str, value: str) -> bool:
    if name.lower() in ("pwd", "oldpwd") and _PATH.match(value):
        return False
    if family is Family.OTHER_KEY:
        return looks_random(value, at_least=16)
    is_count = family is not Family.PASSWORD and value.isdigit() and len(value) < 6
    if is_count or _is_code(value, constant=name.isupper()):
        return False
    if match["separator"] == "=":
        return len(value) >= 3
    if family is Family.PASSWORD:
        return not value.isalpha() or (len(value) >= 4 and _ends_line(match))
    return _is_no_word(value)


def _is_code(value: str, *, constant: bool) -> bool:
    """Return whether `value` is a call, or a variable or attribute for a lower-case name."""
    if _CALL.match(value):
        return True
    return not constant and bool(_OWN_NAME.fullmatch(value) or _ATTRIBUTE.fullmatch(value))


def _is_no_word(value: str) -> bool:
    if value.isalpha():
        return len(value) >= 16 and not (value.islower() or value.istitle())
    return len(value) >= (8 if any(character.isdigit() for character in value) else 12)


def _ends_line(match: re.Match[str]) -> bool:
    rest = match.string[match.end() : match.end() + 2].lstrip(" \t\r")
    return rest[:1] in ("", "\n")


# Characters that `re.IGNORECASE` matches with these letters, besides what `str.lower` returns.
_MATCHED_AS = {"\u0130": "i", "\u0131": "i", "\u017f": "s"}


def normalised(text: str) -> str:
    """Return `text` in lower case, as `re.IGNORECASE` compares it with the letters of hints."""
    if not text.isascii():
        for letter, plain in _MATCHED_AS.items():
            text = text.replace(letter, plain)
    return text.lower()


def contains_any(normalised_text: str, hints: Iterable[str]) -> bool:
    """Return whether one of `hints`, words in lower case, is part of a `normalised` text."""
    return any(hint in normalised_text for hint in hints)
