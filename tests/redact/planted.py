"""Secrets of all kinds, made up at random, and the ways in which they occur in logs."""

from __future__ import annotations

import base64
import json
import random
import string
from collections.abc import Callable, Iterator
from typing import NamedTuple

_ALNUM = string.ascii_letters + string.digits
_WORD = _ALNUM + "_-"
_HEX = "0123456789abcdef"
_UPPER = string.ascii_uppercase + string.digits


class Planted(NamedTuple):
    """A secret, and the text it is in."""

    kind: str
    secret: str
    text: str


class Maker:
    """Makes secrets, the same ones for the same seed."""

    def __init__(self, seed: int = 0) -> None:
        self.random = random.Random(seed)

    def of(self, alphabet: str, length: int) -> str:
        """Characters at random."""
        return "".join(self.random.choice(alphabet) for _ in range(length))

    def encoded(self, length: int, alphabet: bytes | None = None) -> str:
        """Bytes at random in base64."""
        return base64.b64encode(self.random.randbytes(length), alphabet).decode()

    def jwt(self) -> str:
        """A token with a header, a payload and a signature."""
        parts = (
            json.dumps({"alg": "HS256", "typ": "JWT"}),
            json.dumps({"sub": self.of(_ALNUM, 12), "iat": 1516239022}),
        )
        encoded = [base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in parts]
        return ".".join((*encoded, self.of(_WORD, 43)))

    def private_key(self, kind: str = "RSA ") -> str:
        """A key in PEM."""
        body = self.encoded(600)
        lines = "\n".join(body[start : start + 64] for start in range(0, len(body), 64))
        return f"-----BEGIN {kind}PRIVATE KEY-----\n{lines}\n-----END {kind}PRIVATE KEY-----"

    def password(self) -> str:
        """A password as people choose them."""
        return self.of(string.ascii_letters, 7) + self.of(string.digits, 3) + self.random.choice("!#%*+")


MAKERS: dict[str, Callable[[Maker], str]] = {
    "aws-access-key": lambda made: "AKIA" + made.of(_UPPER, 16),
    "github-token": lambda made: "ghp_" + made.of(_ALNUM, 36),
    "github-fine-grained": lambda made: f"github_pat_{made.of(_ALNUM, 22)}_{made.of(_ALNUM, 59)}",
    "gitlab-token": lambda made: "glpat-" + made.of(_WORD, 20),
    "slack-token": lambda made: f"xoxb-{made.of(string.digits, 12)}-{made.of(string.digits, 12)}-{made.of(_ALNUM, 24)}",
    "slack-webhook": lambda made: (
        f"hooks.slack.com/services/T{made.of(_UPPER, 8)}/B{made.of(_UPPER, 8)}/{made.of(_ALNUM, 24)}"
    ),
    "stripe-key": lambda made: "sk_live_" + made.of(_ALNUM, 24),
    "anthropic-key": lambda made: "sk-ant-api03-" + made.of(_WORD, 93) + "AA",
    "openai-key": lambda made: "sk-proj-" + made.of(_WORD, 74),
    "openai-old": lambda made: f"sk-{made.of(_ALNUM, 20)}T3BlbkFJ{made.of(_ALNUM, 20)}",
    "openrouter-key": lambda made: "sk-or-v1-" + made.of(_HEX, 64),
    "google-api-key": lambda made: "AIza" + made.of(_WORD, 35),
    "google-oauth": lambda made: "ya29." + made.of(_WORD, 60),
    "huggingface-token": lambda made: "hf_" + made.of(string.ascii_letters, 34),
    "npm-token": lambda made: "npm_" + made.of(_ALNUM, 36),
    "pypi-token": lambda made: "pypi-AgEIcHlwaS5vcmc" + made.of(_WORD, 140),
    "sendgrid-key": lambda made: f"SG.{made.of(_WORD, 22)}.{made.of(_WORD, 43)}",
    "telegram-token": lambda made: f"{made.of('123456789', 10)}:AA{made.of(_WORD, 33)}",
    "discord-token": lambda made: f"M{made.of(_ALNUM, 23)}.{made.of(_ALNUM, 6)}.{made.of(_WORD, 38)}",
    "digitalocean-token": lambda made: "dop_v1_" + made.of(_HEX, 64),
    "databricks-token": lambda made: "dapi" + made.of(_HEX, 32),
    "aws-session-key": lambda made: "ASIA" + made.of(_UPPER, 16),
    "gitlab-deploy-token": lambda made: "gldt-" + made.of(_WORD, 20),
    "slack-app-token": lambda made: f"xapp-1-A{made.of(_UPPER, 10)}-{made.of(string.digits, 13)}-{made.of(_HEX, 64)}",
    "discord-webhook": lambda made: f"discord.com/api/webhooks/{made.of('123456789', 18)}/{made.of(_WORD, 68)}",
    "stripe-webhook": lambda made: "whsec_" + made.of(_ALNUM, 32),
    "google-secret": lambda made: "GOCSPX-" + made.of(_WORD, 28),
    "xai-key": lambda made: "xai-" + made.of(_ALNUM, 80),
    "groq-key": lambda made: "gsk_" + made.of(_ALNUM, 52),
    "nvidia-key": lambda made: "nvapi-" + made.of(_WORD, 64),
    "replicate-token": lambda made: "r8_" + made.of(_ALNUM, 37),
    "rubygems-key": lambda made: "rubygems_" + made.of(_HEX, 48),
    "docker-token": lambda made: "dckr_pat_" + made.of(_WORD, 27),
    "twilio-key": lambda made: "SK" + made.of(_HEX, 32),
    "mailgun-key": lambda made: "key-" + made.of(_HEX, 32),
    "mailchimp-key": lambda made: f"{made.of(_HEX, 32)}-us{made.random.randint(1, 21)}",
    "resend-key": lambda made: f"re_{made.of(_ALNUM, 8)}_{made.of(_ALNUM, 24)}",
    "shopify-token": lambda made: "shpat_" + made.of(_HEX, 32),
    "square-token": lambda made: "sq0atp-" + made.of(_WORD, 22),
    "linear-key": lambda made: "lin_api_" + made.of(_ALNUM, 40),
    "notion-token": lambda made: "ntn_" + made.of(_ALNUM, 46),
    "figma-token": lambda made: "figd_" + made.of(_WORD, 40),
    "airtable-token": lambda made: f"pat{made.of(_ALNUM, 14)}.{made.of(_HEX, 64)}",
    "vault-token": lambda made: "hvs." + made.of(_WORD, 90),
    "doppler-token": lambda made: "dp.pt." + made.of(_ALNUM, 43),
    "terraform-token": lambda made: f"{made.of(_ALNUM, 14)}.atlasv1.{made.of(_WORD, 67)}",
    "pulumi-token": lambda made: "pul-" + made.of(_HEX, 40),
    "postman-key": lambda made: f"PMAK-{made.of(_HEX, 24)}-{made.of(_HEX, 34)}",
    "newrelic-key": lambda made: "NRAK-" + made.of(_UPPER, 27),
    "grafana-token": lambda made: f"glsa_{made.of(_ALNUM, 32)}_{made.of(_HEX, 8)}",
    "sentry-token": lambda made: "sntryu_" + made.of(_HEX, 64),
    "dynatrace-token": lambda made: f"dt0c01.{made.of(_UPPER, 24)}.{made.of(_UPPER, 64)}",
    "supabase-token": lambda made: "sbp_" + made.of(_HEX, 40),
    "heroku-key": lambda made: "HRKU-AA" + made.of(_WORD, 58),
    "fly-token": lambda made: "fo1_" + made.of(_WORD, 43),
    "circleci-token": lambda made: f"CCIPAT_{made.of(_ALNUM, 22)}_{made.of(_HEX, 40)}",
    "sonar-token": lambda made: "squ_" + made.of(_HEX, 40),
    "octopus-key": lambda made: "API-" + made.of(_UPPER, 26),
    "age-key": lambda made: "AGE-SECRET-KEY-1" + made.of("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58),
    "azure-secret": lambda made: f"{made.of(_ALNUM, 3)}8Q~{made.of(_WORD, 34)}",
    "pgp-key": lambda made: made.private_key("PGP ").replace("KEY-----", "KEY BLOCK-----"),
    "numbered-key": lambda made: "\n".join(
        f"{number:6}\t{line}" for number, line in enumerate(made.private_key("EC ").split("\n"), 1)
    ),
    "signed-url": lambda made: made.of(_HEX, 64),
    "cookie": lambda made: made.of(_ALNUM, 40),
    "jwt": Maker.jwt,
    "private-key": Maker.private_key,
    "openssh-key": lambda made: made.private_key("OPENSSH "),
    "azure-key": lambda made: made.encoded(64),
    "url-password": lambda made: made.of(_ALNUM, 14),
    "aws-secret-key": lambda made: made.encoded(30),
    "bearer-token": lambda made: made.of(_ALNUM, 40),
    "basic": lambda made: base64.b64encode(f"{made.of(_ALNUM, 6)}:{made.password()}".encode()).decode(),
    "secret": lambda made: made.of(_ALNUM, 32),
    "password": Maker.password,
}
_PLACES = {
    "azure-key": ["DefaultEndpointsProtocol=https;AccountName=acct;AccountKey={};EndpointSuffix=core.windows.net"],
    "url-password": [
        "postgres://app:{}@db.internal:5432/main", "DATABASE_URL=mysql://root:{}@10.0.0.3/x",
        "git clone https://me:{}@git.example.com/r.git",
    ],
    "aws-secret-key": ["AWS_SECRET_ACCESS_KEY={}", "aws_secret_access_key = {}", 'export AWS_SECRET_ACCESS_KEY="{}"'],
    "signed-url": ["https://b.s3.amazonaws.com/x.zip?X-Amz-Expires=300&X-Amz-Signature={}"],
    "cookie": ["Cookie: theme=dark; sessionid={}", "set-cookie: sid={}; Path=/; HttpOnly"],
    "bearer-token": ["curl -H 'Authorization: Bearer {}' https://api", '"Authorization": "Bearer {}"'],
    "basic": ["Authorization: Basic {}", '{{"authorization": "Basic {}"}}'],
    "secret": [
        "API_KEY={}", 'client_secret: "{}"', "{{'access_token': '{}'}}", 'const apiKey = "{}";',
        "export NPM_TOKEN={}", "secret: {}", "SECRET_KEY_BASE={}", "docker run -e API_KEY={} image",
        "gh auth login --with-token {}", "the API key is {}", "<apiKey>{}</apiKey>", 'os.environ["APP_KEY"] = "{}"',
        "- name: CLIENT_SECRET\n  value: {}", 'setToken("{}")', "FERNET_KEY={}", "x-api-key: {}",
    ],
    "password": [
        "DB_PASSWORD={}", 'password: "{}"', "password = '{}'", '{{"password":"{}"}}', "mysql --password={} -u root",
        "<password>{}</password>", "Server=db;User Id=sa;Password={};", "curl -u admin:{} https://x.example.com",
        "sshpass -p {} ssh host", "the password is {}", "- name: DB_PASSWORD\n  value: {}", "SMTP_PASS={}",
    ],
}  # fmt: skip
_ANYWHERE = [
    "{}", "the key is {}.", "export KEY={}", 'key = "{}"', "line one\n{}\nline three", "({})", "\x1b[32m{}\x1b[0m",
    "a\t{}\tb", "https://x.example.com/?key={}&a=1", "- {}", '{{"value": "{}"}}', "token: {}",
]  # fmt: skip


def planted(each: int, seed: int = 0) -> Iterator[Planted]:
    """As many secrets of each kind, in various places."""
    made = Maker(seed)
    for kind, make in MAKERS.items():
        for _ in range(each):
            secret = make(made)
            place = made.random.choice(_PLACES.get(kind, _ANYWHERE))
            yield Planted(kind, secret, place.format(secret))
