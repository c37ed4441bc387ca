"""Endpoints for notifications by Web Push, and the link for a phone."""

from __future__ import annotations

import asyncio
from typing import Any

from litestar import Request, Response, get, post
from litestar.handlers import HTTPRouteHandler

from ...core.errors import MissingExtraError
from ..assets import assets
from ..notifications import push_key
from ..pages.layout import State
from ..phone_link import phone_link, qr_image
from .run_schemas import EndpointBody, PhoneLink, PushKey, SubscriptionBody, WhoBody
from .runs import decoded_body, json_response


@get("/sw.js", include_in_schema=False)
async def service_worker() -> Response[bytes]:
    """Send the service worker. It is at the root, so that its scope includes all pages."""
    script = assets()["sw.js"]
    return Response(script.data, media_type=script.media_type)


@get("/api/push", include_in_schema=False)
async def push(app_state: State) -> Response[bytes]:
    """Return the key with which a browser subscribes."""
    key, reason = await asyncio.to_thread(push_key, app_state.notifier)
    return json_response(PushKey(key=key, reason=reason))


@post("/api/push", include_in_schema=False)
async def subscribe(request: Request[Any, Any, Any], app_state: State) -> Response[bytes]:
    """Subscribe a browser to notifications."""
    from ..web_push import PushSubscription

    body: SubscriptionBody = await decoded_body(request, SubscriptionBody)
    subscription = PushSubscription(endpoint=body.endpoint, p256dh=body.p256dh, auth=body.auth, who=body.who)
    await asyncio.to_thread(app_state.push_notifier().subscribe, subscription)
    return json_response({}, 201)


@post("/api/push/remove", include_in_schema=False)
async def unsubscribe(request: Request[Any, Any, Any], app_state: State) -> Response[bytes]:
    """Unsubscribe a browser from notifications."""
    body: EndpointBody = await decoded_body(request, EndpointBody)
    await asyncio.to_thread(app_state.push_notifier().unsubscribe, body.endpoint)
    return json_response({}, 201)


@post("/api/phone", include_in_schema=False)
async def phone(request: Request[Any, Any, Any], app_state: State) -> Response[bytes]:
    """Return the link that opens the app on another device. It contains the token, so only those who may act get it."""
    await decoded_body(request, WhoBody)
    settings = app_state.settings
    link = phone_link(settings, settings.access().token)
    try:
        found = PhoneLink(link=link, image=await asyncio.to_thread(qr_image, link))
    except MissingExtraError as error:
        found = PhoneLink(link=link, reason=str(error))
    return json_response(found, 201)


routes: list[HTTPRouteHandler] = [service_worker, push, subscribe, unsubscribe, phone]
