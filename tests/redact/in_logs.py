"""Secrets as they are in the logs of agents: in files, commands and their output, in diffs and requests.

Written from what providers and the programs themselves publish about their tokens and files, not from the rules that
find them.
"""

from __future__ import annotations

import base64
import json
import string
from collections.abc import Callable, Iterator
from urllib.parse import quote

from .planted import Maker, Planted

_ALNUM = string.ascii_letters + string.digits
_WORD = _ALNUM + "_-"
_HEX = "0123456789abcdef"
_UPPER = string.ascii_uppercase + string.digits
_LOWER = string.ascii_lowercase + string.digits


def _uuid(made: Maker) -> str:
    return "-".join(made.of(_HEX, length) for length in (8, 4, 4, 4, 12))


def _mixed(made: Maker) -> str:
    """A password that a machine made."""
    letters = [made.of(string.ascii_lowercase, 5), made.of(string.ascii_uppercase, 4), made.of(string.digits, 4)]
    return "".join(made.random.sample("".join(letters), 13)) + made.random.choice("!#%*+@^")


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _jwe(made: Maker) -> str:
    header = base64.urlsafe_b64encode(b'{"alg":"RSA-OAEP","enc":"A256GCM"}').decode().rstrip("=")
    return ".".join((header, *(made.of(_WORD, length) for length in (342, 16, 120, 22))))


def _discord(made: Maker) -> str:
    number = _encoded(made.of("123456789", 18))
    return f"{number}.{made.of(_WORD, 6)}.{made.of(_WORD, 38)}"


_TOKENS: dict[str, Callable[[Maker], str]] = {
    "adafruit": lambda made: "aio_" + made.of(_ALNUM, 28),
    "airtable": lambda made: f"pat{made.of(_ALNUM, 14)}.{made.of(_HEX, 64)}",
    "anthropic-admin": lambda made: "sk-ant-admin01-" + made.of(_WORD, 93) + "AA",
    "anthropic-oauth": lambda made: "sk-ant-oat01-" + made.of(_WORD, 95),
    "asana": lambda made: f"1/{made.of('123456789', 16)}:{made.of(_HEX, 32)}",
    "atlassian": lambda made: f"ATATT3xFfGF0{made.of(_WORD, 170)}={made.of(_HEX.upper(), 8)}",
    "aws": lambda made: "AKIA" + made.of(string.ascii_uppercase + "234567", 16),
    "azure-client-secret": lambda made: f"{made.of(_ALNUM, 3)}8Q~{made.of(_ALNUM + '_.-', 34)}",
    "cloudflare": lambda made: "cfut_" + made.of(_ALNUM, 40) + made.of(_HEX, 8),
    "crates": lambda made: "cio" + made.of(_ALNUM, 32),
    "cursor": lambda made: "key_" + made.of(_HEX, 64),
    "discord": _discord,
    "dropbox": lambda made: "sl." + made.of(_WORD, 135),
    "facebook-app": lambda made: f"{made.of('123456789', 15)}|{made.of(_WORD, 27)}",
    "gemini": lambda made: "AIzaSy" + made.of(_WORD, 33),
    "github-app": lambda made: "ghs_" + made.of(_ALNUM, 36),
    "gitlab-runner": lambda made: "glrt-" + made.of(_WORD, 20),
    "grafana-cloud": lambda made: (
        "glc_" + _encoded(json.dumps({"o": made.of("123456789", 6), "k": made.of(_ALNUM, 40)}))
    ),
    "groq": lambda made: "gsk_" + made.of(_ALNUM, 52),
    "hubspot": lambda made: "pat-na1-" + _uuid(made),
    "huggingface": lambda made: "hf_" + made.of(string.ascii_letters, 34),
    "jwe": _jwe,
    "jwt": Maker.jwt,
    "langfuse": lambda made: "sk-lf-" + _uuid(made),
    "launchdarkly": lambda made: "sdk-" + _uuid(made),
    "mapbox": lambda made: f"sk.eyJ{made.of(_ALNUM, 70)}.{made.of(_WORD, 22)}",
    "nuget": lambda made: "oy2" + made.of(_LOWER, 43),
    "openai-project": lambda made: f"sk-proj-{made.of(_WORD, 74)}T3BlbkFJ{made.of(_WORD, 74)}",
    "openai-service": lambda made: f"sk-svcacct-{made.of(_WORD, 58)}T3BlbkFJ{made.of(_WORD, 58)}",
    "razorpay": lambda made: "rzp_live_" + made.of(_ALNUM, 14),
    "replicate": lambda made: "r8_" + made.of(_ALNUM, 37),
    "runpod": lambda made: "rpa_" + made.of(_UPPER, 40),
    "salesforce": lambda made: f"00D{made.of(_ALNUM, 12)}!{made.of(_ALNUM + '_.', 96)}",
    "shopify": lambda made: "shpss_" + made.of(_HEX, 32),
    "slack-config": lambda made: "xoxe.xoxp-1-" + made.of(_UPPER, 163),
    "sourcegraph": lambda made: f"sgp_{made.of(_HEX, 16)}_{made.of(_HEX, 40)}",
    "stripe-restricted": lambda made: "rk_live_" + made.of(_ALNUM, 99),
    "tailscale": lambda made: f"tskey-auth-{made.of(_ALNUM, 16)}-{made.of(_ALNUM, 32)}",
    "together": lambda made: "tgp_v1_" + made.of(_WORD, 43),
    "typeform": lambda made: "tfp_" + made.of(_ALNUM + "_", 44),
    "voiceflow": lambda made: f"VF.DM.{made.of(_HEX, 24)}.{made.of(_ALNUM, 16)}",
    "zoho": lambda made: f"1000.{made.of(_HEX, 32)}.{made.of(_HEX, 32)}",
    "base64-key": lambda made: _encoded(made.private_key("RSA ")),
    "bcrypt": lambda made: "2b$12$" + made.of(_ALNUM + "./", 53),
}
_AROUND = [
    "+{}", "-  {}", "    12→{}", "   7\t{}", "12:{}:", "{}", "`{}`", "Your key: {}. Keep it safe.", "<code>{}</code>",
    "| name | {} |", "echo {} | base64 -d", "cat <<EOF > f\n{}\nEOF", "[{}]", "url=https://x.test/a?b=1&t={}#x",
    "stdout: {}\\nexit 0", "={}", ",{},", "\x1b[1;33m{}\x1b[0m", "(key {})", "# {}",
]  # fmt: skip

_KEY: Callable[[Maker], str] = lambda made: made.of(_ALNUM, 32)  # noqa: E731
_PLACES: list[tuple[str, Callable[[Maker], str], str]] = [
    ("env", _KEY, "MISTRAL_API_KEY={}"),
    ("env", _KEY, "export COHERE_API_KEY='{}'"),
    ("env", _KEY, "AUTH_SECRET={}"),
    ("env", _KEY, "API_KEY_GITHUB={}"),
    ("env", _KEY, "VITE_TOKEN_STAGING={}"),
    ("env", _KEY, "set -gx APP_TOKEN {}"),
    ("env", _KEY, "setenv DEPLOY_KEY {}"),
    ("env", _KEY, "ENV STRIPE_SECRET {}"),
    ("env", _KEY, '$env:API_TOKEN = "{}"'),
    ("env", _KEY, "export SECRET_TOKEN={}"),
    ("yaml", _KEY, "api_key: {}"),
    ("yaml", _KEY, '  clientSecret: "{}"'),
    ("yaml", _KEY, "auth-token: |\n  {}"),
    ("yaml", _KEY, '- name: JWT_SECRET\n  value: "{}"'),
    ("toml", _KEY, 'secret_key = "{}"'),
    ("ini", _KEY, "[x]\naccess_token={}"),
    ("json", _KEY, '{{"apiKey":"{}"}}'),
    ("json", _KEY, '{{"signing_secret": "{}"}}'),
    ("json", _KEY, '{{"name": "GH_TOKEN", "value": "{}"}}'),
    ("xml", _KEY, '<add key="ApiKey" value="{}" />'),
    ("provider-key", _KEY, '"datadog_key": "{}"'),
    ("provider-key", _KEY, "algoliaKey: '{}'"),
    ("provider-key", lambda made: made.of(_HEX, 40), "cloudflare.key={}"),
    ("python", _KEY, 'client = Client(api_key="{}")'),
    ("python", _KEY, "os.environ['SECRET'] = '{}'"),
    ("python", _KEY, "os.environ.setdefault('AUTH_TOKEN', '{}')"),
    ("python", _KEY, "SECRET_KEY = '{}'"),
    ("js", _KEY, "const accessToken = '{}';"),
    ("js", _KEY, "headers: {{ 'X-Api-Key': '{}' }}"),
    ("js", _KEY, "process.env.CLIENT_SECRET = `{}`"),
    ("php", _KEY, "define('SECURE_AUTH_KEY', '{}');"),
    ("php", _KEY, "$config['secret_key'] = '{}';"),
    ("java", _KEY, 'private static final String API_TOKEN = "{}";'),
    ("c", _KEY, '#define API_TOKEN "{}"'),
    ("go", _KEY, 'apiKey := "{}"'),
    ("ruby", _KEY, "api_key: '{}',"),
    ("terraform", _KEY, 'variable "api_token" {{\n  default = "{}"\n}}'),
    ("terraform", _KEY, 'secret_key = "{}"'),
    ("flag", _KEY, "tool --api-key {}"),
    ("flag", _KEY, "tool --auth-token={}"),
    ("flag", _KEY, "x --client-secret '{}'"),
    ("table", _KEY, "| API_KEY | {} |"),
    ("table", _KEY, "│ api_token │ {} │"),
    ("query", _KEY, "GET /v1?api_key={}&q=1"),
    ("query", _KEY, "https://maps.test/js?key={}"),
    ("header", _KEY, "X-Auth-Token: {}"),
    ("header", _KEY, "-H 'api-key: {}'"),
    ("short", lambda made: made.of(_LOWER, 14) + "4x7y1", "secret_token: {}"),
    ("uuid", _uuid, "HEROKU_API_KEY={}"),
    ("uuid", _uuid, "api_key: '{}'"),
    ("password", _mixed, "DB_PASSWORD={}"),
    ("password", _mixed, 'password: "{}"'),
    ("password", _mixed, "passwort: {}"),
    ("password", _mixed, "contraseña: {}"),
    ("password", _mixed, "senha = '{}'"),
    ("password", _mixed, "密码: {}"),
    ("password", _mixed, "machine api.test\n  login ada\n  password {}"),
    ("password", _mixed, "machine a login b password {}"),
    ("password", _mixed, "db.test:5432:main:app:{}"),
    ("password", _mixed, "*:*:*:app:{}"),
    ("password", _mixed, "PGPASSWORD='{}' psql -h db"),
    ("password", _mixed, "mysql -u root -p'{}' main"),
    ("password", _mixed, "mysqldump -uroot -p{} x"),
    ("password", _mixed, "mongosh -u app -p {} --quiet"),
    ("password", _mixed, "docker login -u me -p {} r.test"),
    ("password", _mixed, "redis-cli -h r -a {} ping"),
    ("password", _mixed, "sqlcmd -S h -U sa -P {}"),
    ("password", _mixed, "tool --db-password {}"),
    ("password", _mixed, "openssl rsa -passin pass:{} -in k"),
    ("password", _mixed, "Driver={{X}};Uid=a;Pwd={};"),
    ("password", _mixed, 'ConvertTo-SecureString "{}" -AsPlainText -Force'),
    ("password", _mixed, "spring.datasource.password={}"),
    ("password", _mixed, "CREATE LOGIN app WITH PASSWORD = '{}'"),
    ("password", _mixed, "curl -u ada:{} https://x.test"),
    ("password", _mixed, 'curl -s \\\n  --user "ada:{}" https://x.test'),
    ("url", _KEY, "postgresql://app:{}@db.test:5432/main"),
    ("url", _KEY, "mysql+pymysql://a:{}@h/x"),
    ("url", _KEY, "mongodb+srv://a:{}@c.mongodb.net/?w=majority"),
    ("url", _KEY, "redis://:{}@h:6379/0"),
    ("url", _KEY, "amqps://a:{}@mq.test/v"),
    ("url", _KEY, "jdbc:postgresql://h/d?user=a&password={}"),
    ("url", _KEY, "jdbc:oracle:thin:app/{}@db.test:1521/X"),
    ("url", _KEY, "https://oauth2:{}@gitlab.test/a/b.git"),
    ("url", _KEY, "ftp://a:{}@f.test"),
    ("url", _KEY, "smtp://a%40b.test:{}@mail.test:587"),
    ("url", _KEY, "clickhouse://a:{}@h"),
    ("url", _KEY, "cloudinary://1234:{}@cloud"),
    ("url", lambda made: made.of(_ALNUM, 20), "u=postgres%3A%2F%2Fapp%3A{}%40db.test%2Fx"),
    ("url", lambda made: made.of(_ALNUM, 8) + "@" + made.of(_ALNUM, 8), "postgres://app:{}@db.test/x"),
    ("basic", lambda made: _encoded(f"ada:{_mixed(made)}"), "Authorization: Basic {}"),
    (
        "basic",
        lambda made: _encoded(f"ada:{_mixed(made)}"),
        '{{"auths": {{"https://index.docker.io/v1/": {{"auth": "{}"}}}}}}',
    ),
    ("basic", lambda made: _encoded(f"ada:{_mixed(made)}"), "//registry.test/:_auth={}"),
    ("bearer", lambda made: made.of(_WORD, 48), '-H "Authorization: Bearer {}"'),
    ("bearer", lambda made: made.of(_HEX, 40), "authorization: token {}"),
    ("npmrc", _uuid, "//registry.npmjs.org/:_authToken={}"),
    ("pypirc", lambda made: "pypi-" + made.of(_WORD, 160), "password = {}"),
    ("kube", lambda made: _encoded(made.private_key("EC ")), "    client-key-data: {}"),
    ("kube", Maker.jwt, "    token: {}"),
    ("aws", lambda made: made.of(_ALNUM + "/+", 40), "aws_secret_access_key = {}"),
    ("aws", lambda made: made.of(_ALNUM + "/+", 40), '"SecretAccessKey": "{}",'),
    ("aws", lambda made: made.of(_ALNUM + "/+", 300), "AWS_SESSION_TOKEN={}"),
    ("aws", lambda made: made.of(_ALNUM + "/+", 40), "AKIAQ3EGTLYXZW5RMN2P,{}"),
    ("azure", lambda made: quote(made.encoded(32), safe=""), "https://a.blob.core.windows.net/c?sv=2022&sp=r&sig={}"),
    (
        "azure",
        lambda made: made.encoded(32),
        "Endpoint=sb://n.servicebus.windows.net/;SharedAccessKeyName=R;SharedAccessKey={}",
    ),
    ("azure", lambda made: made.encoded(64), "AZURE_STORAGE_KEY={}"),
    ("webhook", lambda made: f"{made.of(_HEX, 32)}/{made.of(_HEX, 32)}", "https://x.tines.com/webhook/{}"),
    (
        "webhook",
        lambda made: f"{made.of('123456789', 7)}/{made.of(_LOWER, 7)}",
        "https://hooks.zapier.com/hooks/catch/{}/",
    ),
    (
        "telegram",
        lambda made: f"{made.of('123456789', 10)}:AA{made.of(_WORD, 33)}",
        "https://api.telegram.org/bot{}/getMe",
    ),
    ("jwk", lambda made: made.of(_WORD, 43), '{{"kty":"EC","crv":"P-256","d":"{}"}}'),
    ("wireguard", lambda made: made.encoded(32), "PrivateKey = {}"),
    ("totp", lambda made: made.of("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 32), "otpauth://totp/x?secret={}&issuer=y"),
    ("cookie", _KEY, "curl --cookie 'session={}' https://x.test"),
    ("django", lambda made: made.of(_LOWER + "!@#$%^&*(-_=+)", 50), "SECRET_KEY = 'a7{}'"),
]
KINDS = len(_TOKENS) + len({kind for kind, _, _ in _PLACES})


def in_logs(each: int, seed: int = 0) -> Iterator[Planted]:
    """As many secrets for each kind of token and each place."""
    made = Maker(seed)
    for _ in range(each):
        for kind, make in _TOKENS.items():
            secret = make(made)
            around = "${}" if kind == "bcrypt" else made.random.choice(_AROUND)
            yield Planted(kind, secret, around.format(secret))
        for kind, make, place in _PLACES:
            secret = make(made)
            yield Planted(kind, secret, place.format(secret))
