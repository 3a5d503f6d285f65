"""Secrets are taken out of text; everything else stays as it is."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.sessions.conversations import SESSION_FILES, real_sessions
from workers.redaction import REDACTED, count_secrets, redact, redact_value

# Made up here, in the form that each vendor uses; split, so that no scanner takes them for real.
BY_FORM = {
    "openai": "sk-" + "1234567890abcdef1234",
    "openai project": "sk-proj-" + "abcDEF1234567890abcdef_XYZ",
    "anthropic": "sk-ant-" + "api03-AbCdEf0123456789-xyz",
    "openrouter": "sk-or-v1-" + "0123456789abcdef0123456789abcdef",
    "github": "ghp_" + "1234567890abcdefghij1234567890abcdef",
    "github oauth": "gho_" + "1234567890abcdefghij1234567890abcdef",
    "github fine-grained": "github_pat_" + "11ABCDEFG0abcdefghijkl_mnop",
    "slack": "xoxb-" + "1234567890-abcdefghij",
    "slack webhook": "https://hooks.slack.com/" + "services/T00000000/B00000000/XXXXXXXXXXXX",
    "aws": "AKIA" + "IOSFODNN7EXAMPLE",
    "google": "AIza" + "SyA1234567890abcdefghijklmnopqrstuv",
    "google oauth": "ya29." + "a0AfH6SMBx1234567890abcdef",
    "tavily": "tvly-" + "dev-abcdef1234567890",
    "hugging face": "hf_" + "abcdefghijklmnop12345",
    "gitlab": "glpat-" + "abcdefghij1234567890",
    "npm": "npm_" + "abcdefghijklmnopqrstuvwxyz0123456789",
    "pypi": "pypi-" + "AgEIcHlwaS5vcmcCJDEyMzQ1Njc4LTEyMzQtMTIzNA",
    "jwt": "eyJ" + "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N",
    "telegram": "123456789:" + "AAF1234567890abcdefghijklmnopqrstuv",
    "stripe": "sk_live_" + "abcdefghijklmnop12345678",
    "sendgrid": "SG." + "abcdefghijklmnopqrstuv." + "a" * 40 + "123",
    "twilio": "SK" + "0123456789abcdef0123456789abcdef",
}

BY_NAME = [
    ("export FOO_TOKEN={}", "zq81kfjw0a"),
    ("DefaultEndpoints;AccountKey={};Suffix=x", "a1B2" * 21 + "ab=="),
    ("FOO_TOKEN={}", "swordfish"),
    ("DB_PASSWORD={}", "hunter"),
    ("STRIPE_KEY={}", "rkabc1234567890abcdef"),
    ('MY_SERVICE_KEY="{}"', "0f9e8d7c6b5a43210f9e8d7c"),
    ("aws_secret_access_key = {}", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzzzzKEY"),
    ("SECRET_KEY = '{}'", "django-insecure-abc!@#"),
    ("password: {}", "hunter2"),
    ('password = "{}"', "correct horse battery staple"),
    ("**Password**: {}", "hunter2"),
    ("my password is {}!", "hunter2"),
    ('{{"api_key": "{}"}}', "abc123def456"),
    ('{{"apiKey":"{}"}}', "abcdefghij"),
    ('{{\\"api_key\\": \\"{}\\"}}', "abc123def456"),
    ('{{"password": {}}}', "12345678"),
    ("{{'db_passwd': '{}'}}", "x"),
    ("client_secret: {}", "8f7d6a5s4d3f2g1h"),
    ("  credentials: {}", "user:pass99word"),
    ('token: str = "{}"', "abcd1234efgh"),
    ("const accessToken = '{}';", "abc.def.ghi123"),
    ("https://example.com/cb?access_token={}&user=1", "abc123456"),
    ("mysql --password {} -u root", "hunter2"),
    ("cli --api-key={}", "sdkfj234kj"),
    ("密码：{}", "abc12345"),
    ("用户的密码是 {}，请记住", "Qwerty99"),
    ("пароль: {}", "qwerty99"),
]

BY_PLACE = [
    ("Authorization: Bearer {}", "abcdef.ghijk-123"),
    ("Authorization: Basic {}", "dXNlcjpwYXNz"),
    ("Authorization: Bearer {} was sent, and the server said 401", "abcdef"),
    ("Authorization: Digest {}", 'username="ada", response="6629fae49393a05397450978507c4ef1"'),
    ("'Authorization': 'token {}'", "1234abcd5678"),
    ('curl -H "Authorization: Bearer {}" https://example.com', "zzz123456789"),
    ("curl -H 'X-Api-Key: {}' https://example.com", "9a8b7c6d5e"),
    ("the header was Bearer {}", "abcdefghijklmnop123456"),
    ("Cookie: {}", "session=abc123; theme=dark"),
    ("Set-Cookie: {}", "sid=xyz987; HttpOnly"),
    ("postgres://admin:{}@db.example.com:5432/x", "s3cr3t"),
    ("postgres://user:{}@host/db", "p@ss:w0rd"),
    ("redis://:{}@localhost:6379/0", "p4ssw0rd"),
    ("https://{}@o1.ingest.example.io/1", "0123456789abcdef0123456789abcdef"),
]

ORDINARY = [
    "password: <your key>",
    "API_KEY=$API_KEY",
    "token = ${TOKEN}",
    "password: ****",
    "password=None",
    "password=",
    'api_key: ""',
    '"password": null',
    "Authorization: Bearer {token}",
    "Authorization: Bearer <token>",
    "postgres://user:${PASS}@host/db",
    "max_tokens: 4096",
    "prompt_tokens=1234567",
    'eos_token="<|endoftext|>"',
    'next_page_token: "abc123def456ghi789"',
    'password = os.environ["DB_PASSWORD"]',
    'API_KEY = os.environ["API_KEY"]',
    "password=password",
    "self.token = token",
    "client = Client(api_key=settings.api_key, token=get_token())",
    "def login(user: str, password: str) -> Token:",
    "if token == None:",
    '<input type="password" name="password">',
    '"user_id": "mia_li_3668", "reservation_id": "HAT045", "payment_id": "gift_card_8516878"',
    "call_6xZ8Jd9QpLk2mN4oR7sT1uVw",
    "550e8400-e29b-41d4-a716-446655440000",
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "d41d8cd98f00b204e9800998ecf8427e  file.txt",
    'sort_key = "created_at"',
    "primary_key=True",
    "key=lambda x: x.id",
    "monkey: banana, secretary: Bob1234",
    "PWD=/home/user/project",
    "Cookie: a small baked good",
    "Authorization is required for this endpoint",
    "basic economy, basic understanding, bearer of responsibilities",
    "the token expired: please log in again",
    "The password must contain 8 characters",
    "sk-learn-contrib-package-name",
    "npm_config_registry=x",
    '{"token": "running", "logprob": -0.1}',
    "https://user@example.com/path and git@github.com:user/repo.git",
    "Secret: the cake is a lie",
]

PEM = (
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA1234567890abcdefghij\n"
    "klmnopqrstuvwxyz0123456789ABCDEF\n-----END RSA PRIVATE KEY-----"
)


@pytest.mark.parametrize("secret", BY_FORM.values(), ids=BY_FORM.keys())
@pytest.mark.parametrize("around", ["{}", "see {}, please", '{{"note": "{}"}}', "密钥{}。"])
def test_a_secret_is_known_by_its_form(secret: str, around: str) -> None:
    text = around.format(secret)
    assert redact(text) == around.format(REDACTED)
    assert count_secrets(text) == 1


@pytest.mark.parametrize(("around", "secret"), [*BY_NAME, *BY_PLACE])
def test_a_secret_is_known_by_what_stands_before_it(around: str, secret: str) -> None:
    assert redact(around.format(secret)) == around.format(REDACTED)


@pytest.mark.parametrize("text", ORDINARY)
def test_placeholders_ids_hashes_code_and_prose_stay(text: str) -> None:
    assert redact(text) == text
    assert count_secrets(text) == 0


def test_a_private_key_goes_as_a_whole() -> None:
    assert redact(f"before\n{PEM}\nafter") == f"before\n{REDACTED}\nafter"
    assert redact(json.dumps({"note": PEM})) == json.dumps({"note": REDACTED})


def test_of_a_private_key_that_breaks_off_the_key_goes_and_the_prose_stays() -> None:
    broken = PEM.split("-----END", maxsplit=1)[0] + "Then the output was cut off."
    assert redact(broken).startswith(REDACTED)
    assert redact(broken).endswith("\nThen the output was cut off.")


def test_a_public_key_stays() -> None:
    text = "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkq\n-----END PUBLIC KEY-----"
    assert redact(text) == text


def test_every_secret_is_counted() -> None:
    text = "\n".join([BY_FORM["openai"], "FOO_TOKEN=zq81kfjw0a", PEM])
    assert count_secrets(text) == 3


def test_redacting_again_changes_nothing() -> None:
    text = "\n".join([around.format(secret) for around, secret in [*BY_NAME, *BY_PLACE]])
    text += PEM + " ".join(BY_FORM.values())
    once = redact(text)
    assert redact(once) == once
    assert count_secrets(once) == 0


_PIECES = st.sampled_from(
    [
        *BY_FORM.values(),
        *(around.format(secret) for around, secret in [*BY_NAME, *BY_PLACE]),
        *ORDINARY,
        PEM,
        *("password", "token=", '"', "'", "\\", ":", "\n", " ", "[", "]", "@", "://", "-----", "&"),
    ]
)


@given(st.lists(st.one_of(_PIECES, st.text(max_size=8)), max_size=12).map("".join))
def test_any_text_is_clean_after_one_pass(text: str) -> None:
    once = redact(text)
    assert redact(once) == once


@pytest.mark.parametrize("name", SESSION_FILES)
def test_real_conversations_hold_no_secrets_and_stay_untouched(name: str) -> None:
    for number, (_, messages) in enumerate(real_sessions(name)):
        if number % 4 == 0:
            for message in messages:
                text = json.dumps(message, ensure_ascii=False)
                assert redact(text) == text


ADVERSARIAL = [
    *(
        "sk-",
        "eyJ",
        "eyJa.",
        "ghp_",
        "xoxb-1-",
        "glagent-",
        "SG.",
        "AKIA",
        "1234567890:",
        "A",
        "a1",
    ),
    *(
        "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nAAAA\n",
        "-----",
        "://a:",
        "://a",
    ),
    *('token="', "token='", 'token=\\"', 'token="\\"', "token=(", "token=)", "&token=a&", "{"),
    *(
        "password: ",
        "password:\t",
        "password is ",
        "_key",
        "api_",
        "密码是",
        "authorization:",
        "\\",
    ),
    *("cookie: a", "cookie: a=", "Bearer ", "--token ", "--a", "Proc-Type:", "-", " ", "=", "\n"),
]


@pytest.mark.parametrize("unit", ADVERSARIAL)
def test_nothing_but_beginnings_takes_no_longer_than_prose(unit: str) -> None:
    text = unit * (300_000 // len(unit))
    started = time.process_time()
    redact(text)
    # Linear patterns need a fifth of a second; a quadratic one would need minutes.
    assert time.process_time() - started < 5


@pytest.mark.parametrize("text", ["", "\x00", "\ud800 token=\udfff1234567", "汉" * 10])
def test_odd_strings_are_no_problem(text: str) -> None:
    assert isinstance(redact(text), str)


def test_every_string_in_a_json_value_is_redacted() -> None:
    secret = BY_FORM["openai"]
    value = {
        "content": [
            {"type": "text", "text": f"my key is {secret}"},
            {"type": "image_url", "image_url": {"url": f"https://example.com/?k={secret}"}},
        ],
        "tool_calls": [{"function": {"arguments": json.dumps({"env": [f"A_TOKEN={secret}"]})}}],
        secret: (secret, 7, None, True),
    }
    clean = redact_value(value)
    assert secret not in json.dumps(clean)
    assert json.loads(clean["tool_calls"][0]["function"]["arguments"]) == {
        "env": [f"A_TOKEN={REDACTED}"]
    }
    assert clean[REDACTED] == [REDACTED, 7, None, True]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("password", "x"),
        ("userPassword", 12345),
        ("api_key", "abcdefgh"),
        ("x-api-key", "zz"),
        ("Authorization", "Bearer x"),
        ("cookie", "a=b"),
        ("credentials", {"user": "u", "pass": "p"}),
        ("refresh_token", ["a", "b"]),
        ("client_secret", "s"),
    ],
)
def test_a_value_under_a_secret_name_goes_as_a_whole(key: str, value: Any) -> None:
    assert redact_value({key: value, "kept": "x"}) == {key: REDACTED, "kept": "x"}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("password", None),
        ("password", ""),
        ("token", "<token>"),
        ("has_password", True),
        ("max_tokens", 512),
        ("sort_key", "created_at"),
        ("public_key", "ssh-ed25519 AAAA"),
        ("key", "name"),
        ("tokens", 12),
    ],
)
def test_what_only_sounds_like_a_secret_stays(key: str, value: Any) -> None:
    assert redact_value({key: value}) == {key: value}


def test_the_value_that_was_given_is_not_changed() -> None:
    value = {"password": "x", "list": [{"token": "abcdefgh1"}]}
    redact_value(value)
    assert value == {"password": "x", "list": [{"token": "abcdefgh1"}]}
