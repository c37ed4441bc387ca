"""The kinds of secrets: tokens, and values in places where secrets are."""

from __future__ import annotations

from .shapes import SLASH, SecretKind
from .tokens import TOKENS

_QUOTES = r"""\\*["'`]?"""
"""A quotation mark, in JSON perhaps inside a string."""
_GAP = r"(?:\s|\\+[nrt])*"
_IN_VALUE = rf"{SLASH}|\\+u(?!00[01])[0-9A-Fa-f]{{4}}"
"""Escapes that belong to a value."""
_VALUE = rf"""(?:[^\s"'\\,;<>(){{}}\[\]`|&]|{_IN_VALUE})"""
_QUOTED = rf"""(?:[^\s"'\\`]|{_IN_VALUE})"""
_SUFFIX = (
    r"(?:[_-]?(?:base(?:64)?|prod(?:uction)?|dev(?:elopment)?|staging|test(?:ing)?|live|value|hash|b64|hex|raw|"
    r"old|new|primary|secondary|[0-9]{1,2}))?"
)
_SUFFIX_ANY = f"(?i:{_SUFFIX})"
_PASSWORDS = r"passw(?:or)?ds?|passwd|pwd|passphrase|passcode|(?:db|smtp|mail|ftp|admin|user|root|[_\"'])pass"
_KEYS = (
    r"secrets?|tokens?|credentials?|(?:access|auth)[_-]?code|(?:api|access|auth|secret|private|account|shared|master|"
    r"encryption|signing|license|app|consumer|client|subscription|storage|write|ingestion|server|merchant|deploy|"
    r"fernet|jwt|crypt|cipher|session|cookie|hmac|webhook|integration|service|admin|rsa|ssh|aes)[_ -]?keys?|"
    r"[_-]authtoken|[^a-z]_auth"
)
_ASSIGNED = (
    rf"{_QUOTES}\]?(?:{_GAP}(?:=>|:=|={{1,3}}|[:>]|\\+t|\|\|){_GAP}{_QUOTES}"
    rf"|{_GAP},?{_GAP}{_QUOTES}value{_QUOTES}\s*[:=]\s*{_QUOTES}|\(\s*\\*[\"'`]|\s(?:is|was):?\s{_QUOTES})"
)
"""What is between the name of a secret and its value."""
_GIVEN = (
    r"""\\*["'`]?\]?(?:\s*(?:(?:=>|:=|={1,3}|:|\|\||\\+t)\s*\\*["'`]|={1,3}\s*[^\s=]|(?:[:>]|\\+t)\s*[0-9]*"""
    r"""[^0-9\s"'\\,;<>(){}\[\]`|&])|[\s,\\nrt]*["']?value|\(\s*\\*["'`]|\s(?:is|was):?\s)"""
)
"""The same, but not the numbers in JSON, which count tokens."""


def _named(name: str, names: str) -> SecretKind:
    """A value with a name such as `password`, as it is assigned in all kinds of files and languages."""
    value = rf"""((?<=["'`]){_QUOTED}{{6,512}}(?=\\*["'`])|{_VALUE}{{6,512}})"""
    return SecretKind(
        name, rf"(?i:{names}){_SUFFIX_ANY}{_GIVEN}", rf"(?i:{names}){_SUFFIX_ANY}{_ASSIGNED}{value}", is_certain=False
    )


PLACES = (
    SecretKind(
        "azure-key",
        r"(?:AccountKey|SharedAccessKey|SharedSecret|[?&;]sig|\\u0026sig)=",
        rf"(?:AccountKey|SharedAccessKey|SharedSecret|[?&;]sig|\\u0026sig)=((?:[A-Za-z0-9+%]|{SLASH}){{40,1024}}(?:={{1,2}}|%3[Dd])?)",
    ),
    SecretKind(
        "signed-url",
        r"X-(?:Amz|Goog)-Signature=",
        r"X-(?:Amz|Goog)-Signature=([0-9a-f]{32,1024})",
    ),
    SecretKind(
        "url-password",
        rf"""[a-z0-9]:{SLASH}{SLASH}[^\s/:@"'\\<>]*:[^\s/@"'\\<>]+@""",
        rf"""[a-z0-9]:{SLASH}{SLASH}[^\s/:@"'\\<>]*:([^\s/@"'\\<>]{{3,256}})@[^\s/@]""",
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
    SecretKind("bearer-token", r"(?i:bearer)\s", r"(?i:bearer)\s+([A-Za-z0-9_.~+/-]{16,4096}={0,2})", is_certain=False),
    SecretKind(
        "cookie",
        rf"(?i:cookie){_QUOTES}:\s",
        rf"""(?i:cookie){_QUOTES}:\s*{_QUOTES}([^"'\\\r\n]*?=[A-Za-z0-9%._~+/-]{{16,}}[^"'\\\r\n]*)""",
    ),
    SecretKind(
        "aws-secret-key",
        rf"(?i:aws_?(?:secret|session)_?(?:access_?)?(?:key|token)|secretaccesskey){_GIVEN}",
        rf"(?i:aws_?(?:secret|session)_?(?:access_?)?(?:key|token)|secretaccesskey){_ASSIGNED}"
        rf"((?:[A-Za-z0-9+=]|{SLASH}){{40,2048}})",
    ),
    SecretKind(
        "password",
        r"(?:curl|wget|http)\s",
        rf"(?:curl|wget|http)\s(?:[^\n\\]|\\+[\"'])"
        rf"{{0,300}}?(?:-u|--user|--proxy-user|-a)[ =]?{_QUOTES}[^\s:\"'\\]{{1,64}}:({_VALUE}{{4,256}})",
        is_certain=False,
    ),
    SecretKind(
        "password",
        r"(?:sshpass|mysql[a-z]*|redis-cli|docker login)\s",
        rf"(?:sshpass\s+-p\s*|(?:mysql[a-z]*|docker login|redis-cli)\s[^\n\\]{{0,200}}?\s-(?:p|a\s)\s?)"
        rf"{_QUOTES}({_VALUE}{{6,256}})",
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
        rf"(?i:--(?:[a-z]+-)*(?:token|secret|key|credentials?))[= ]{_QUOTES}({_VALUE}{{12,512}})",
        is_certain=False,
    ),
    _named("password", _PASSWORDS),
    _named("secret", _KEYS),
    SecretKind(
        "secret",
        r"[A-Z0-9]_(?:KEY|PAT|PSK|SALT)=",
        rf"[A-Z0-9]_(?:KEY|PAT|PSK|SALT)={_QUOTES}({_VALUE}{{16,512}})",
        is_certain=False,
    ),
)  # fmt: skip

KINDS = (*TOKENS, *PLACES)
"""All kinds. Of two that begin at the same place, the first counts."""
GENERIC = frozenset({"password", "secret", "bearer-token", "authorization", "api-key", "cookie"})
"""Kinds that say where a secret is, not what it is: another kind that fits the same value is more exact."""
