"""Tokens that can be recognised wherever they are: by a prefix, or by something in their middle."""

from __future__ import annotations

from .shapes import BEFORE, HEX, LONGEST_BEFORE, SLASH, WORD, SecretKind, infix, token

_UUID = r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"
_KEY_LINE = r"[A-Za-z0-9+/=\s:,.()>|*\xe2\x86\x92-]|\\+[nrt]"
"""What lines of a private key consist of, also with line numbers, or quoted."""

_CLOUDS = (
    token("aws-access-key", r"(?:AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9])", r"[A-Z0-9]{16}", is_exact=True),
    token("aws-bedrock-key", "ABSK", r"[A-Za-z0-9+/]{80,1024}={0,2}"),
    token("aws-bedrock-key", "bedrock-api-key-", r"[A-Za-z0-9+/=]{20,2048}"),
    token("alibaba-key", "LTAI", r"[A-Za-z0-9]{12,24}", is_exact=True),
    token("google-api-key", "AIza", rf"{WORD}{{35}}"),
    token("google-oauth", r"ya29\.", r"[A-Za-z0-9_.-]{20,2048}"),
    token("google-oauth", "GOCSPX-", rf"{WORD}{{20,1024}}"),
    token("google-oauth", "1//0", rf"{WORD}{{40,1024}}"),
    infix("azure-secret", r"[A-Za-z0-9_~.-]{3}", r"[0-9]Q~", r"[A-Za-z0-9_~.-]{31,34}", 4),
    infix("azure-devops-token", r"[A-Za-z0-9]{52,84}", "AZDO", r"[A-Za-z0-9]{4}", 84),
    infix("azure-key", r"[A-Za-z0-9]{40,60}", "(?:JQQJ9|ACDb|AzCa|AzSe|ASt[0-9A-Za-z])", r"[A-Za-z0-9+/=]{4,40}", 60),
    token("cloudflare-key", r"v1\.0-", r"[0-9a-f]{24}-[0-9a-f]{140,152}"),
    token("digitalocean-token", r"do[opr]_v1_", r"[0-9a-f]{64}"),
    token("heroku-key", "HRKU-", rf"{WORD}{{36,80}}"),
    token("scalingo-token", r"tk-us-", rf"{WORD}{{40,64}}"),
    token("openshift-token", "sha256~", rf"{WORD}{{43}}"),
    token("netlify-token", "nfp_", r"[A-Za-z0-9]{36,1024}"),
    token("render-key", "rnd_", r"[A-Za-z0-9]{28,64}"),
    token("vercel-token", r"vc[acikpr]_", r"[A-Za-z0-9]{24,128}"),
    token("fly-token", "fo1_", rf"{WORD}{{40,1024}}"),
    token("fly-token", r"fm[12][ar]?_", r"[A-Za-z0-9+/=]{80,2048}"),
    token("supabase-token", "sbp_", r"[0-9a-f]{40}"),
    token("supabase-token", "sb_secret_", rf"{WORD}{{20,1024}}"),
    token("neon-key", "napi_", r"[a-z0-9]{48,80}"),
    token("planetscale-token", r"pscale_(?:tkn|oauth|pw)_", r"[A-Za-z0-9_.=-]{32,1024}"),
    token("databricks-token", "dapi", r"[0-9a-f]{32}(?:-[0-9])?", is_exact=True),
    token("clickhouse-key", "4b1d", r"[A-Za-z0-9]{38}", is_exact=True, is_certain=False),
    token("confluent-key", "cflt", r"[A-Za-z0-9+/]{56,64}"),
    token("pulumi-token", "pul-", r"[0-9a-f]{40}"),
    infix("terraform-token", r"[A-Za-z0-9]{14}", r"\.atlasv1\.", r"[A-Za-z0-9_=-]{60,1024}", 15),
    token("vault-token", r"hv[bsr]\.", rf"{WORD}{{24,1024}}"),
    token("doppler-token", r"dp\.(?:pt|st|ct|sa|scim|audit)\.", r"(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,44}"),
    token("infisical-token", r"st\.[0-9a-f]", r"[0-9a-f]{20,40}\.[0-9a-f.]{32,80}"),
    token("1password-key", "A3-", r"[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}"),
    token("1password-token", "ops_eyJ", r"[A-Za-z0-9+/_-]{100,4096}={0,3}"),
)

_CODE = (
    token("github-token", r"gh[opusr]_", r"[A-Za-z0-9_]{36,255}"),
    token("github-token", r"github_pat_", r"[A-Za-z0-9_]{36,255}"),
    token(
        "gitlab-token",
        r"gl(?:pat|rt|dt|oas|soat|ptt|cbt|ft|imt|agent|wt|ffct)-",
        rf"{WORD}{{20,1024}}(?:\.[0-9a-z.]+)?",
    ),
    token("gitlab-token", "GR1348941", rf"{WORD}{{20,50}}"),
    token("gitlab-session", "_gitlab_session=", r"[0-9a-z]{32}"),
    token("atlassian-token", r"AT(?:ATT|CTT|BB)", r"[A-Za-z0-9_=-]{24,1024}", is_certain=False),
    token("npm-token", "npm_", r"[A-Za-z0-9]{36}", is_exact=True),
    token("pypi-token", "pypi-", rf"{WORD}{{50,1024}}"),
    token("rubygems-key", "rubygems_", r"[0-9a-f]{48}"),
    token("clojars-token", "CLOJARS_", r"[a-z0-9]{60}"),
    token("docker-token", r"dckr_[op]at_", rf"{WORD}{{20,1024}}"),
    token("artifactory-key", "AKC", r"[A-Za-z0-9]{60,80}", is_exact=True),
    token("artifactory-token", "cmVmd", r"[A-Za-z0-9]{59}", is_exact=True),
    token("circleci-token", r"CCIP(?:AT|RJ)_", r"[A-Za-z0-9_]{40,80}"),
    token("buildkite-token", r"bk(?:ua|at|ct|pt)_", r"[0-9a-zA-Z]{32,80}"),
    token("sonar-token", r"sq[apu]_", r"[0-9a-f]{40}"),
    token("sourcegraph-token", r"sg[pdm]_", r"(?:(?:[0-9a-fA-F]{16}|local)_)?[0-9a-fA-F]{40,64}"),
    token("octopus-key", "API-", r"[A-Z0-9]{26}", is_exact=True),
    token("postman-key", "PMAK-", r"[0-9a-f]{24}-[0-9a-f]{34}"),
    token("prefect-token", r"pn[ub]_", r"[A-Za-z0-9]{36}", is_exact=True),
    token("harness-token", r"[ps]at\.[A-Za-z0-9_-]", rf"{WORD}{{20,22}}\.[A-Za-z0-9]{{24}}\.[A-Za-z0-9]{{20}}"),
    token("readme-key", "rdme_", r"[a-z0-9]{60,80}"),
    token("infracost-key", "ico-", r"[A-Za-z0-9]{32}", is_exact=True),
    token("linear-key", r"lin_(?:api|oauth)_", r"[A-Za-z0-9]{32,1024}"),
    token("notion-token", "ntn_", r"[A-Za-z0-9]{40,1024}"),
    token("notion-token", "secret_", r"[A-Za-z0-9]{40,50}"),
    token("figma-token", r"fig[duo]r?_", rf"{WORD}{{40,1024}}"),
    infix("airtable-token", "pat[A-Za-z0-9]{14}", rf"\.{HEX * 12}", r"[0-9a-f]{52}", 18),
    token("contentful-token", "CFPAT-", rf"{WORD}{{40,64}}"),
    token("intra42-secret", r"s-s4t2(?:ud|af)-", r"[0-9a-f]{64}"),
    token("adobe-secret", "p8e-", rf"{WORD}{{32}}", is_exact=True),
    token("frameio-token", "fio-u-", r"[A-Za-z0-9_=-]{60,70}"),
    infix("maxmind-key", r"[A-Za-z0-9]{6}_[A-Za-z0-9]{29}", "_mmk", "", 36),
)

_MODELS = (
    token("anthropic-key", "sk-ant-", rf"{WORD}{{20,1024}}"),
    token("openai-key", r"sk-(?:proj|svcacct|admin|None|service)-", rf"{WORD}{{20,1024}}"),
    token("openai-key", r"sk-", r"[A-Za-z0-9_-]{16,1024}T3BlbkFJ[A-Za-z0-9_-]{16,1024}"),
    token("openrouter-key", r"sk-or-", r"(?:v[0-9]-)?[0-9A-Za-z]{32,1024}"),
    token("api-key", r"sk-", rf"{WORD}{{20,1024}}", is_certain=False),
    token("api-key", r"sk_", r"[0-9a-f]{48}", is_exact=True),
    token("xai-key", "xai-", r"[A-Za-z0-9]{40,1024}"),
    token("groq-key", "gsk_", r"[A-Za-z0-9]{40,1024}"),
    token("cerebras-key", "csk-", r"[A-Za-z0-9]{32,1024}"),
    token("nvidia-key", "nvapi-", rf"{WORD}{{40,1024}}"),
    token("fireworks-key", "fw_", r"[A-Za-z0-9]{22,64}", is_certain=False),
    token("perplexity-key", "pplx-", r"[A-Za-z0-9]{40,1024}"),
    token("replicate-token", "r8_", r"[A-Za-z0-9]{37}", is_exact=True),
    token("huggingface-token", "hf_", r"[A-Za-z0-9]{30,1024}"),
    token("huggingface-token", "api_org_", r"[A-Za-z0-9]{30,1024}"),
    token("jina-key", "jina_", rf"{WORD}{{40,1024}}"),
    token("voyage-key", "pa-", rf"{WORD}{{40,64}}", is_certain=False),
    token("pinecone-key", "pcsk_", r"[A-Za-z0-9_]{40,1024}"),
    token("tavily-key", "tvly-", rf"{WORD}{{20,128}}"),
    token("firecrawl-key", "fc-", r"[0-9a-f]{32}", is_exact=True),
    token("e2b-key", "e2b_", r"[0-9a-f]{40}"),
    token("langsmith-key", r"lsv2_(?:pt|sk)_", r"[0-9a-f_]{32,64}"),
    token("wandb-key", "wandb_v1_", rf"{WORD}{{40,128}}"),
)

_MESSAGES = (
    token("slack-token", r"xox[abceoprs](?:\.xox[a-z])?-", r"[A-Za-z0-9-]{10,1024}"),
    token("slack-token", r"xapp-[0-9]-", r"[A-Za-z0-9-]{20,1024}"),
    token(
        "slack-webhook",
        r"hooks\.slack\.com",
        rf"{SLASH}(?:services|workflows|triggers)(?:{SLASH}{WORD}{{6,1024}}){{2,5}}",
    ),
    token(
        "discord-webhook",
        r"discord(?:app)?\.com",
        rf"{SLASH}api(?:{SLASH}v[0-9]+)?{SLASH}webhooks{SLASH}[0-9]{{17,20}}{SLASH}{WORD}{{50,199}}",
    ),
    infix("discord-token", rf"[MNO]{WORD}{{22,28}}", rf"\.{WORD * 6}\.{WORD * 14}", rf"{WORD}{{12,26}}", 30),
    token(
        "teams-webhook",
        r"webhook\.office\.com",
        rf"{SLASH}webhookb2{SLASH}[A-Za-z0-9@-]{{36,80}}{SLASH}IncomingWebhook{SLASH}[A-Za-z0-9/\\-]{{32,128}}",
    ),
    SecretKind(
        "telegram-token",
        rf"{'[0-9]' * 8}:{WORD * 6}",
        rf"{BEFORE}([0-9]{{8,10}}:{WORD}{{34,36}})(?!{WORD})",
        is_certain=False,
        before=LONGEST_BEFORE + 2,
    ),
    token("sendgrid-key", r"SG\.", r"[A-Za-z0-9_=.-]{50,80}"),
    token("brevo-key", r"x(?:keys|smtps)ib-", r"[0-9a-f]{64}-[A-Za-z0-9]{16}"),
    token("twilio-key", r"(?:SK|AC)[0-9a-fA-F][0-9a-fA-F]", r"[0-9a-fA-F]{30}", is_exact=True),
    token("mailgun-key", "key-", r"[0-9a-f]{32}", is_exact=True),
    infix("mailgun-key", r"[0-9a-f]{32}", rf"-{HEX * 8}-{HEX * 8}", r"(?![0-9A-Za-z-])", 33),
    infix("mailchimp-key", r"[0-9a-z]{32}", r"-us[0-9]", r"[0-9]?", 33),
    token("resend-key", "re_", r"[A-Za-z0-9]{6,10}_[A-Za-z0-9]{18,32}", is_exact=True),
    token("facebook-token", "EAA", r"[A-Za-z0-9]{80,1024}"),
)

_MONEY = (
    token("stripe-key", r"[srp]k_(?:live|test|prod)_", r"[A-Za-z0-9]{10,1024}"),
    token("stripe-key", r"whsec_", r"[A-Za-z0-9+/]{24,1024}=*"),
    token("square-token", r"sq0[a-z][a-z][a-z]-", rf"{WORD}{{22,43}}"),
    token("square-token", "EAAA", rf"{WORD}{{60}}"),
    token("shopify-token", r"shp(?:at|ca|pa|ss)_", r"[0-9A-Fa-f]{32}"),
    token("plaid-token", r"(?:access|public|link)-(?:sandbox|development|production)-", _UUID),
    token("flutterwave-key", r"FLW(?:SEC|PUB)K(?:_TEST)?-", r"[0-9a-zA-Z]{12,40}(?:-X)?"),
    token("easypost-key", r"EZ[AT]K", r"[A-Za-z0-9]{54}", is_exact=True),
    token("shippo-token", r"shippo_(?:live|test)_", r"[0-9a-fA-F]{40}"),
    token("duffel-token", r"duffel_(?:live|test)_", r"[A-Za-z0-9_=-]{43}"),
    token("settlemint-token", r"sm_[aps]at_", r"[A-Za-z0-9]{16}", is_exact=True),
)

_MONITORING = (
    token("grafana-token", r"gl(?:c|sa)_", r"[A-Za-z0-9+/_]{32,1024}={0,2}"),
    token("grafana-key", "eyJrIjoi", r"[A-Za-z0-9+/]{60,400}={0,3}"),
    token("sentry-token", r"sntry[su]_", r"[A-Za-z0-9+/_=-]{40,1024}"),
    SecretKind("sentry-dsn", rf"://{HEX * 8}", r"://([0-9a-f]{32}(?::[0-9a-f]{32})?)@"),
    token("newrelic-key", r"NR(?:AK|II|IQ|RA|JS|SP)-", rf"{WORD}{{19,64}}"),
    infix("newrelic-key", r"[0-9a-f]{36}", "NRAL", r"(?![A-Za-z0-9])", 36),
    token("dynatrace-token", r"dt0[a-z][0-9][0-9]\.", r"[A-Za-z0-9]{24}\.[A-Za-z0-9]{64}"),
    token("honeycomb-key", r"hc[abi][a-z][km]_", r"[0-9a-z]{50,64}"),
    token("posthog-key", r"ph[xs]_", r"[A-Za-z0-9]{40,64}"),
    token(
        "authress-key",
        r"(?:sc|ext|scauth|authress)_[a-z0-9]",
        r"[a-z0-9]{4,30}\.[a-z0-9]{4,6}\.acc[_-][A-Za-z0-9_=+/.-]{30,160}",
    ),
)

_STANDARDS = (
    SecretKind(
        "private-key",
        r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY",
        r"(-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
        rf"(?:(?:{_KEY_LINE}){{40,40000}}?-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
        rf"|(?:(?:\s|\\+[nrt]|[0-9]+(?:\xe2\x86\x92|[ :|]))*[A-Za-z0-9+/=]{{16,}})+))",
    ),
    SecretKind(
        "private-key", r"Private-Lines: [0-9]", r"Private-Lines: [0-9]+((?:(?:\s|\\+[nr])+[A-Za-z0-9+/=]{16,}){1,200})"
    ),
    token("age-key", "AGE-SECRET-KEY-1", r"[0-9A-Z]{50,60}"),
    token("jwt", r"eyJ", rf"{WORD}{{8,4096}}\.eyJ{WORD}{{8,8192}}\.{WORD}{{8,1024}}"),
    token("jwt", r"eyJ", rf"{WORD}{{16,4096}}\.{WORD}{{0,1024}}\.{WORD}{{12,64}}\.{WORD}{{16,65536}}\.{WORD}{{16,64}}"),
)  # fmt: skip

TOKENS = (*_STANDARDS, *_CLOUDS, *_CODE, *_MODELS, *_MESSAGES, *_MONEY, *_MONITORING)
"""Of two that begin at the same place, the first counts."""
