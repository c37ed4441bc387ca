"""`unspool serve`: start the web app, on the sessions of this computer or of a team."""

from __future__ import annotations

import argparse
import shlex
import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ...api import samples
from ...core.errors import MissingExtraError, UnspoolError, UsageError
from ...io.pip import install_command
from ...library import Library
from ...runs.sandbox import check_sandbox
from ...store.locate import data_folder
from ...store.private_files import is_open_to_others
from .._shared.client import register_server, unregister_server
from .._shared.options import add_source
from .._shared.output import print_note
from .._shared.store import warn_of_password

if TYPE_CHECKING:
    from ...web.settings import Settings

EXAMPLES = """examples:
  unspool serve
  unspool serve --port 9000 --no-browser
  unspool serve --store postgresql://team@db/unspool
  unspool serve --host 0.0.0.0 --name my-laptop.local     to reach it from another computer
  unspool serve --public-url https://unspool.example.org  behind a reverse proxy with TLS
  unspool serve --host 0.0.0.0 --name my-laptop.local --tls-self-signed --qr
  unspool serve --revoke                                  to log out all browsers"""

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_ANY = ("0.0.0.0", "::", "")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_source(parser)
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1, this computer only)"
    )
    parser.add_argument("--port", type=int, help="port (default: 8377, or the next free one; 0: any free port)")
    parser.add_argument(
        "--name", action="append", default=[], metavar="HOST", help="another host name of this server; may be repeated"
    )
    parser.add_argument("--tls", nargs=2, metavar=("CERT", "KEY"), help="encrypt with this certificate and its key")
    parser.add_argument(
        "--tls-self-signed",
        action="store_true",
        help="encrypt with a self-signed certificate, which is created if necessary",
    )
    parser.add_argument(
        "--public-url", metavar="URL", help="the URL of the server for other devices, for example behind a proxy"
    )
    parser.add_argument("--qr", action="store_true", help="also print the link for a phone as a QR code")
    parser.add_argument("--no-browser", action="store_true", help="print the link without opening it")
    parser.add_argument(
        "--no-follow", action="store_true", help="show the store as it is, without importing new sessions"
    )
    parser.add_argument("--poll", action="store_true", help="check the files at intervals, for network drives")
    parser.add_argument("--sandbox", action="store_true", help="hide unspool's data from agents (needs bubblewrap)")
    parser.add_argument("--link", action="store_true", help="print the link to the running server and exit")
    parser.add_argument(
        "--revoke", action="store_true", help="log out all browsers, replace the token, print the new link and exit"
    )
    parser.add_argument("--or-samples", action="store_true", help="show the sample sessions if there are none")


def run(args: argparse.Namespace) -> int:
    """Serve until Ctrl-C."""
    settings = _settings(args)
    if args.link or args.revoke:
        return _print_link(settings, args.revoke)
    if args.sandbox:
        check_sandbox()
    try:
        from ...web.server import serve
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"the web app needs {error.name}; install it with: {install_command('web')}") from error
    warn_of_password(args.store)
    _warn_of_open_folder(data_folder())
    if args.host not in _LOOPBACK:
        print_note(
            f"Listening on {args.host}: other computers can reach this server. Anyone with the link, which contains"
        )
        secrecy = "" if settings.certificate is not None else " The connection is not encrypted."
        print_note(f"the access token, can read every session and run agents.{secrecy}")
    try:
        serve(settings, lambda ready: _opened(ready, args), any_port=args.port is None)
    finally:
        unregister_server()
    return 0


def _warn_of_open_folder(folder: Path) -> None:
    """Warn if other users can enter a folder: they can see the names of its files, and may be able to replace them."""
    if is_open_to_others(folder):
        print_note(f"Other users can enter {folder}, where unspool keeps its token and what agents did.")
        print_note(f"Run: chmod 700 {shlex.quote(str(folder))}")


def _print_link(settings: Settings, revokes: bool) -> int:
    access = settings.access()
    if revokes:
        count = access.revoke()
        print_note(f"Revoked the token and {count} browser session{'' if count == 1 else 's'}. This is the new link:")
    print(settings.link(access.token))
    return 0


def _settings(args: argparse.Namespace) -> Settings:
    from ...web.settings import PORT, Settings

    folder = data_folder()
    homes, store = tuple(args.home), args.store
    if args.or_samples and not homes and store is None and not any(True for _ in Library().refs()):
        print_note("No sessions on this computer yet. These are the bundled samples.")
        homes, store = (str(samples()),), str(folder / "samples.db")
    return Settings(
        store=store,
        homes=homes,
        host=args.host,
        port=PORT if args.port is None else args.port,
        names=tuple(args.name),
        follows=not args.no_follow,
        polls=args.poll,
        data=str(folder),
        sandbox=args.sandbox,
        certificate=_certificate(args),
        public_url=_public_url(args.public_url),
    )


def _certificate(args: argparse.Namespace) -> tuple[str, str] | None:
    if args.tls is None and not args.tls_self_signed:
        return None
    from ...web.certificates import check_certificate, fingerprint

    if args.tls is not None:
        certificate, key = args.tls
    else:
        from ...web.self_signed import own_certificate

        names = dict.fromkeys(("127.0.0.1", "localhost", *args.name, *([] if args.host in _ANY else [args.host])))
        certificate, key = own_certificate(data_folder(), tuple(names))
        if not args.link:
            print_note("Browsers warn about a self-signed certificate. Compare its SHA-256 fingerprint with this one:")
            print_note(fingerprint(certificate))
    check_certificate(certificate, key)
    return certificate, key


def _public_url(url: str | None) -> str | None:
    if url is None:
        return None
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.path not in ("", "/") or parts.query:
        raise UsageError(f"--public-url needs a URL such as https://unspool.example.org, not {url!r}")
    return f"{parts.scheme}://{parts.netloc}"


def _opened(settings: Settings, args: argparse.Namespace) -> None:
    token = settings.access().token
    link = settings.link(token)
    register_server(settings.address, settings.certificate[0] if settings.certificate is not None else None)
    print(f"unspool is at {link}" if sys.stdout.isatty() else link, flush=True)
    print_note("Press Ctrl-C to stop")
    if args.qr:
        _print_qr(settings, token)
    if not args.no_browser and sys.stdout.isatty():
        webbrowser.open(link)


def _print_qr(settings: Settings, token: str) -> None:
    from ...web.phone_link import phone_link, qr_text

    try:
        link = phone_link(settings, token)
        print(f"{qr_text(link)}\n{link}", flush=True)
    except UnspoolError as error:
        print_note(str(error))
