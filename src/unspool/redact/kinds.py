"""All kinds of secrets: tokens, and values that are recognised by the text around them."""

from __future__ import annotations

from .shapes import BEFORE, SLASH, WORD, SecretKind
from .tokens import TOKEN_KINDS

_QUOTES = r"""\\*["'`]?"""
"""An optional quotation mark, which is escaped inside a JSON string."""
_GAP = r"(?:\s|\\+[nrt])*"
_IN_VALUE = rf"{SLASH}|\\+u(?!00[01])[0-9A-Fa-f]{{4}}"
"""Escapes that are part of a value."""
_VALUE = rf"""(?:[^\s"'\\,;<>(){{}}\[\]`|&]|{_IN_VALUE})"""
_QUOTED = rf"""(?:[^\s"'\\`]|{_IN_VALUE})"""
_SUFFIX = (
    r"(?:[_-]?(?:base(?:64)?|prod(?:uction)?|dev(?:elopment)?|staging|test(?:ing)?|live|value|hash|b64|hex|raw|"
    r"old|new|primary|secondary|[0-9]{1,2}))?"
)
_SUFFIX_ANY = f"(?i:{_SUFFIX})"
_PASSWORDS = (
    r"passw(?:or)?ds?|passwd|pwd|passphrase|passcode|(?:db|smtp|mail|ftp|admin|user|root|[_\"'])pass|"
    r"passwort|kennwort|contrase(?:ñ|\\+u00f1|n)a|senha|mot de passe|wachtwoord|пароль|"
    r"(?:密|\\+u5bc6)(?:码|碼|\\+u7801)|パスワード"
)
"""Names of passwords in several languages, as people write them in notes and prompts."""
_KEYS = (
    r"secrets?|tokens?|credentials?|(?:access|auth)[_-]?code|(?:api|access|auth|secret|private|account|shared|master|"
    r"encryption|license|app|consumer|client|subscription|storage|write|ingestion|server|merchant|deploy|"
    r"fernet|jwt|crypt|cipher|session|cookie|hmac|webhook|integration|service|admin|rsa|ssh|aes)[_ -]?keys?|"
    r"signing[_ -]keys?|(?-i:signingKey)|[_-]authtoken|[^a-z]_auth"
)
_ASSIGNMENT = (
    rf"{_QUOTES}\]?(?:{_GAP}(?:=>|:=|={{1,3}}|[:>]|\\+t|\|{{1,2}}|│|\\+u2502){_GAP}(?:[|>][+-]?{_GAP})?{_QUOTES}"
    rf"|{_GAP},?{_GAP}{_QUOTES}value{_QUOTES}\s*[:=]\s*{_QUOTES}|\(\s*\\*[\"'`]|\s(?:is|was|ist|es|est):?\s{_QUOTES}"
    rf"|\s*\{{[^{{}}]{{0,200}}?(?:default|value)\s*=\s*\\*[\"']|\s*,\s*\\*[\"'`])"
)
"""The text between the name of a secret and its value."""
ASSIGNMENT_TRIGGER = (
    r"""\\*["'`]?\]?(?:\s*(?:(?:=>|:=|={1,3}|:|\|{1,2}|│|\\+u2502|\\+t)\s*\\*["'`]|={1,3}\s*[^\s=]|(?:[:>]|│|\\+u2502|\|\s|\\+t)\s*[0-9]*"""
    r"""[^0-9\s"'\\,;<>(){}\[\]`&])|[\s,\\nrt]*["']?value|\(\s*\\*["'`]|\s(?:is|was|ist|es|est):?\s"""
    r"""|["']\s*(?:\{|,\s*\\*["'`]))"""
)
"""The same for triggers, but without numbers in JSON, which are usually counts of tokens."""


_COMMANDS = (
    r"sshpass|mysql[a-z]*|mariadb|redis-cli|(?:docker|podman|helm registry|skopeo|crane auth|oras|oc|az|cf|npm) login|"
    r"mongo(?:sh|dump|restore|export|import)?|sqlcmd|bcp|ldap(?:search|add|modify)|rabbitmqadmin|unzip|7z|zip|xfreerdp"
)
"""Commands that take a password with a short option."""
_NO_OPTION = r"(?!(?:edit|recv|send|export|list|delete|sign|lsign|search|refresh|default|public|cache|primary|ssh)-key)"
_VARIABLES = r"KEY|PAT|PSK|SALT|TOKEN|SECRET|PASSWORD|PASSPHRASE|PASSWD|PASS|PWD|AUTH|CREDENTIALS?|CREDS?|DSN"
_NOT_SECRET = r"(?:ID|NAME|FILE|PATH|DIR|URL|URI|ARN|HASH|SHA|SHA256|VERSION|COUNT|LIMIT|TTL|TYPE|PUB|PUBLIC)="
_NO_KEY = "".join(
    f"(?<!(?i:{word}))"
    for word in (
        "public",
        "cache",
        "primary",
        "foreign",
        "partition",
        "sort",
        "idempotency",
        "object",
        "hash",
        "lookup",
        "group",
        "row",
        "index",
        "unique",
        "map",
        "file",
        "s3",
        "blob",
        "dedupe",
        "dedup",
        "event",
        "message",
        "node",
        "item",
        "route",
        "query",
        "registry",
        "host",
        "pub",
        "image",
        "state",
        "store",
        "data",
        "storage",
        "parent",
        "block",
    )
)
"""Words before `key` that make it an identifier instead of a secret."""


def _named(name: str, names: str) -> SecretKind:
    """Define a value with a name such as `password`, as assigned in many file formats and languages."""
    value = rf"""((?<=["'`]){_QUOTED}{{6,512}}(?=\\*["'`])|{_VALUE}{{6,512}})"""
    return SecretKind(
        name,
        rf"(?i:{names}){_SUFFIX_ANY}{ASSIGNMENT_TRIGGER}",
        rf"(?i:{names}){_SUFFIX_ANY}{_ASSIGNMENT}{value}",
        is_certain=False,
    )


CONTEXTUAL_KINDS = (
    SecretKind(
        "azure-key",
        r"(?:AccountKey|SharedAccessKey|SharedSecret|[?&;]sig|\\u0026sig)=",
        rf"(?:AccountKey|SharedAccessKey|SharedSecret|[?&;]sig|\\u0026sig)=((?:[A-Za-z0-9+%_-]|{SLASH}){{40,1024}}(?:={{1,2}}|%3[Dd])?)",
    ),
    SecretKind(
        "signed-url",
        r"X-(?:Amz|Goog)-Signature=",
        r"X-(?:Amz|Goog)-Signature=([0-9a-f]{32,1024})",
    ),
    SecretKind(
        "url-password",
        rf""":{SLASH}{SLASH}[^\s/:@"'\\<>]*:[^\s/@"'\\<>]+@""",
        rf""":{SLASH}{SLASH}[^\s/:@"'\\<>]*:([^\s/"'\\<>]{{3,256}})@[^\s/@]""",
    ),
    SecretKind(
        "url-password",
        r"(?i:%3a%2f%2f)[A-Za-z0-9._~-]*(?i:%3a)",
        r"(?i:%3a%2f%2f)[A-Za-z0-9._~-]*(?i:%3a)((?:[A-Za-z0-9._~!*-]|%[0-9A-Fa-f]{2}){3,256}?)(?i:%40)",
    ),
    SecretKind(
        "url-password", r"jdbc:oracle:[a-z]+:", r"jdbc:oracle:[a-z]+:[A-Za-z0-9_$#]+/([^\s/@\"'\\<>]{3,256})@",
    ),
    SecretKind(
        "authorization",
        rf"(?i:authorization){_QUOTES}\s*[:=]\s*{_QUOTES}(?i:basic|digest|token|apikey|ssws)\s",
        rf"(?i:authorization){_QUOTES}\s*[:=]\s*{_QUOTES}(?i:basic|digest|token|apikey|ssws)\s+([A-Za-z0-9+/_=.-]{{8,2048}})",
    ),
    SecretKind(
        "authorization",
        rf"(?i:authorization){_QUOTES}\s*:\s*{_QUOTES}[A-Za-z0-9]",
        rf"(?i:authorization){_QUOTES}\s*:\s*{_QUOTES}([A-Za-z0-9+/_=.-]{{16,2048}})",
        is_certain=False,
    ),
    SecretKind(
        "bearer-token",
        r"(?i:bearer)\s",
        r"(?i:bearer)\s+([A-Za-z0-9_.~+/%-]{16,4096}={0,2})",
        is_certain=False,
    ),
    SecretKind(
        "cookie",
        rf"(?i:cookie){_QUOTES}:\s",
        rf"""(?i:cookie){_QUOTES}:\s*{_QUOTES}([^"'\\\r\n]*?=[A-Za-z0-9%._~+/-]{{16,}}[^"'\\\r\n]*)""",
    ),
    SecretKind(
        "cookie",
        rf"--cookie[ =]{_QUOTES}",
        rf"""--cookie[ =]{_QUOTES}([^"'\\\r\n]*?=[A-Za-z0-9%._~+/-]{{16,}}[^"'\\\r\n]*)""",
    ),
    SecretKind(
        "aws-secret-key",
        rf"(?i:aws_?(?:secret|session)_?(?:access_?)?(?:key|token)|secretaccesskey){ASSIGNMENT_TRIGGER}",
        rf"(?i:aws_?(?:secret|session)_?(?:access_?)?(?:key|token)|secretaccesskey){_ASSIGNMENT}"
        rf"((?:[A-Za-z0-9+=]|{SLASH}){{40,2048}})",
    ),
    SecretKind(
        "password",
        r"(?:curl|wget|http)\s",
        rf"(?:curl|wget|http)\s(?:[^\n\\]|\\+[\"'n\n])"
        rf"{{0,300}}?(?:-u|--user|--proxy-user|-a)[ =]?{_QUOTES}[^\s:\"'\\]{{1,64}}:({_VALUE}{{4,256}})",
        is_certain=False,
    ),
    SecretKind(
        "password",
        rf"(?:{_COMMANDS})\s",
        rf"(?:{_COMMANDS})\s(?:[^\n\\]{{0,200}}?\s)?-(?:p|P|a\s|w\s)(?!ort)\s?{_QUOTES}({_VALUE}{{6,256}})",
        is_certain=False,
    ),
    SecretKind(
        "password",
        r"-pass(?:in|out)?\s+pass:",
        rf"-pass(?:in|out)?\s+pass:({_VALUE}{{4,256}})",
        is_certain=False,
    ),
    SecretKind(
        "password",
        r"login\s+[^\s\"'\\]+(?:\s|\\+[nrt])+password\s",
        rf"login\s+[^\s\"'\\]+(?:\s|\\+[nrt])+password\s+({_VALUE}{{4,256}})",
        is_certain=False,
    ),
    SecretKind(
        "password",
        r":(?:5432|5433|6432|6543|\*):[A-Za-z0-9_*-]+:[A-Za-z0-9_.*-]+:",
        rf":(?:5432|5433|6432|6543|\*):[A-Za-z0-9_*-]+:[A-Za-z0-9_.*-]+:({_VALUE}{{4,256}})",
        is_certain=False,
    ),
    SecretKind(
        "password",
        r"(?i:convertto-securestring)\s",
        rf"(?i:convertto-securestring)\s[^\n\"'\\]{{0,80}}\\*[\"']({_QUOTED}{{4,256}})",
        is_certain=False,
    ),
    SecretKind(
        "registry-auth",
        r"""["']auth\\*["']\s*:\s*\\*["']""",
        r"""["']auth\\*["']\s*:\s*\\*["']([A-Za-z0-9+/]{12,4096}={0,2})\\*["']""",
        is_certain=False,
    ),
    SecretKind(
        "private-key",
        r"""["']d\\*["']\s*:\s*\\*["']""",
        rf"""["']d\\*["']\s*:\s*\\*["']({WORD}{{40,1024}})\\*["']""",
        is_certain=False,
    ),
    SecretKind(
        "password",
        rf"(?i:--(?:[a-z]+-)?(?:password|pass|pwd|passphrase))[= ]{_QUOTES}",
        rf"(?i:--(?:[a-z]+-)?(?:password|pass|pwd|passphrase))[= ]{_QUOTES}({_VALUE}{{6,512}})",
        is_certain=False,
    ),
    SecretKind(
        "secret",
        rf"(?i:--(?:[a-z]+-)*(?:token|secret|key|credentials?))[= ]{_QUOTES}",
        rf"(?i:--{_NO_OPTION}(?:[a-z]+-)*(?:token|secret|key|credentials?))[= ]{_QUOTES}({_VALUE}{{12,512}})",
        is_certain=False,
    ),
    _named("password", _PASSWORDS),
    _named("secret", _KEYS),
    SecretKind(
        "secret",
        rf"{BEFORE}(?:{_VARIABLES})(?:_[A-Z0-9]+)*=",
        rf"{BEFORE}(?:{_VARIABLES})(?:_(?!{_NOT_SECRET})[A-Z0-9]+)*={_QUOTES}({_VALUE}{{16,512}})",
        is_certain=False,
    ),
    SecretKind(
        "secret",
        rf"(?:ENV|ARG|setenv|set -[a-zA-Z]+|#define)\s+[A-Z0-9_]*(?:{_VARIABLES})\s",
        rf"(?:ENV|ARG|setenv|set -[a-zA-Z]+|#define)\s+[A-Z0-9_]*(?:{_VARIABLES})\s+{_QUOTES}({_VALUE}{{8,512}})",
        is_certain=False,
    ),
    SecretKind(
        "secret",
        rf"(?:[_.-](?i:key)|Key){ASSIGNMENT_TRIGGER}",
        rf"(?<=[a-zA-Z0-9]){_NO_KEY}(?:[_.-](?i:key)|Key){_ASSIGNMENT}((?<=[\"'`]){_QUOTED}{{16,512}}(?=\\*[\"'`])|{_VALUE}{{16,512}})",
        is_certain=False,
    ),
    SecretKind(
        "secret",
        r"(?:[?&]|\\u0026)(?:key|appid|app_key|signature|auth)=",
        r"(?:[?&]|\\u0026)(?:key|appid|app_key|signature|auth)=((?:[A-Za-z0-9_.~+-]|%[0-9A-Fa-f]{2}){16,1024})",
        is_certain=False,
    ),
)  # fmt: skip

KINDS = (*TOKEN_KINDS, *CONTEXTUAL_KINDS)
"""All kinds. If two match at the same position, the first one is used."""
GENERIC = frozenset({"password", "secret", "bearer-token", "authorization", "api-key", "cookie"})
"""Kinds that are recognised by the text around the value. A specific kind that matches the same value is preferred."""
