"""Where scripted faults meet requests: the dispatcher asks, for each decoded request, how it is to be handled.

There is no second path of requests: a request that meets a fault gets another `Route`, whose handler wraps the real
one; all others keep theirs. A production broker has no interception at all.
"""

from dataclasses import replace
from functools import partial
from typing import Any, Final, cast

import trio

from odradek.gateway.assembly import Services
from odradek.gateway.env.completion import Completion, completed
from odradek.gateway.errors import PeerError, RequestRefusedError
from odradek.gateway.server.context import RequestContext
from odradek.gateway.server.dispatch import Route
from odradek.gateway.testing.asking import CLIENT_ID
from odradek.gateway.testing.kit.error_replies import (
    Place,
    Selection,
    failed,
    joined,
    named,
    place_of,
    replaced,
    with_error,
    without,
)
from odradek.gateway.testing.kit.faults import Fault, Faults, Hit, Request
from odradek.gateway.testing.kit.names import name_of_api
from odradek.partitions.fetching.sessions import FINAL_EPOCH, INITIAL_EPOCH
from odradek.wire.api_keys import ApiKey
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.fetch import FetchRequest, FetchResponse, FetchTopic
from odradek.wire.messages.metadata import MetadataRequest
from odradek.wire.schema.schema import Message

FULL_FETCHES: Final = (INITIAL_EPOCH, FINAL_EPOCH)


class Interception:
    """Gives the requests that meet a fault another route (`Services.intercept`).

    Called on the Trio thread, and in worker threads for large requests. Requests of the kit itself meet no fault.
    """

    def __init__(self, faults: Faults) -> None:
        self._faults = faults

    def __call__(self, ctx: RequestContext, request: Message, route: Route) -> Route:
        """The route of a decoded request."""
        if not self._faults.is_any_armed or ctx.client_id == CLIENT_ID:
            return route
        fault = self._faults.met_by(ctx.api_key, partial(_hit, ctx, request))
        if fault is None:
            return route
        handle = FaultyHandler(fault, route)
        return Route(
            route.request_type,
            handle,
            route.versions,
            is_pipelined=False,
            is_deferred=True,
            keeps_memory=route.keeps_memory,
        )


def _hit(ctx: RequestContext, request: Message, fault: Fault) -> Hit | None:
    """The hit if the request meets the fault. Raises what the fault's `matching` raises."""
    plan, api = fault.plan, name_of_api(ctx.api_key)
    if plan.client_id is not None and plan.client_id != ctx.client_id:
        return None
    selection = _selection(ctx.services, fault)
    found = _selected(ctx, request, selection)
    if not selection.is_everything and not found:
        return None
    if plan.matching is not None and not plan.matching(Request(api, ctx.api_version, ctx.client_id, request)):
        return None
    return Hit(api, ctx.api_version, ctx.client_id, found)


def _selection(services: Services, fault: Fault) -> Selection:
    return Selection(fault.plan.topic, fault.plan.partition, services.metadata.topic_name)


def _selected(ctx: RequestContext, request: Message, selection: Selection) -> tuple[tuple[str, int | None], ...]:
    """The selected topics and partitions that a request names."""
    if isinstance(request, MetadataRequest) and request.topics is None:
        found: list[dict[str, Any]] = [{"name": name} for name in ctx.services.metadata.image.topics_by_name]
    else:
        found = list(named(_whole(ctx, request), ctx.api_version))
    return tuple([(selection.name(each) or "", each.get("partition")) for each in found if selection.takes(each)])


def _whole(ctx: RequestContext, request: Message) -> Message:
    """The request; for a Fetch in a session, with all partitions of the session."""
    if not isinstance(request, FetchRequest) or request.session_epoch in FULL_FETCHES:
        return request
    known = [
        FetchTopic(topic=wanted.topic or "", topic_id=wanted.topic_id, partitions=(wanted.asked,))
        for wanted in ctx.services.fetch_sessions.partitions_of(request.session_id)
    ]
    return replace(cast("Any", request), topics=(*request.topics, *known))


class FaultyHandler:
    """The handler of one request that meets a fault."""

    def __init__(self, fault: Fault, route: Route) -> None:
        self._fault = fault
        self._route = route

    async def __call__(self, ctx: RequestContext, request: Message) -> Completion[Any]:
        """Do what the fault says, before or after the real handler. Raises PeerError to close the connection."""
        plan = self._fault.plan
        if plan.when == "after":
            response = await self._really(ctx, request)
            await self._hold_up()
            if plan.error is None or response is None:
                return completed(response)
            return completed(self._overlaid(ctx, response, plan.error))
        await self._hold_up()
        if plan.error is None:
            return completed(await self._really(ctx, request))
        return completed(await self._refused(ctx, request, plan.error))

    async def _really(self, ctx: RequestContext, request: Message) -> Message | None:
        """The response of the real handler."""
        response = await self._route.handle(ctx, request)
        return await response.wait() if self._route.is_deferred else response

    async def _hold_up(self) -> None:
        """Delay the request. Raises PeerError if its connection is to be closed, also when it is no longer dropped."""
        plan = self._fault.plan
        if plan.delay_s:
            with trio.move_on_after(plan.delay_s):
                await self._fault.released()
        if plan.drop:
            await self._fault.released()
        if plan.drop or plan.close:
            raise PeerError(f"{self._fault}")

    async def _refused(self, ctx: RequestContext, request: Message, error: ErrorCode) -> Message | None:
        """The error response; the request is executed for partitions that are not selected."""
        selection = _selection(ctx.services, self._fault)
        place = place_of(ctx.api_key, ctx.api_version, error, selection)
        if ctx.api_key is ApiKey.METADATA and place:
            response = await self._really(ctx, request)
            return None if response is None else self._overlaid(ctx, response, error)
        if not place:
            return with_error(ctx.api_key, request, ctx.api_version, error)
        if isinstance(request, FetchRequest):
            return await self._fetched(ctx, request, place, error, selection)
        errors = failed(ctx.api_key, place, request, ctx.api_version, error, selection)
        if errors is None:
            return await self._really(ctx, request)
        if getattr(request, "acks", None) == 0:
            raise RequestRefusedError(f"{self._fault}")  # as for any error of a Produce that has no response
        rest = without(ctx.api_key, place, request, ctx.api_version, selection)
        real = None if rest is None else await self._really(ctx, rest)
        return errors if real is None else joined(place, real, errors, ctx.api_version)

    async def _fetched(
        self, ctx: RequestContext, request: FetchRequest, place: Place, error: ErrorCode, selection: Selection
    ) -> Message | None:
        """The response to a Fetch of which partitions fail. The real handler runs, since it keeps the fetch session."""
        api, version = ctx.api_key, ctx.api_version
        errors = failed(api, place, _whole(ctx, request), version, error, selection)
        response = await self._really(ctx, replace(cast("Any", request), max_wait_ms=0))
        if not isinstance(response, FetchResponse) or errors is None or response.error_code:
            return response
        for wanted in ctx.services.fetch_sessions.partitions_of(response.session_id):
            if selection.takes({"name": wanted.topic, "partition": wanted.asked.partition}):
                wanted.high_watermark = -1  # as after any error: the end of it is new to the reader
        return joined(place, replaced(place, response, version, None, selection), errors, version)

    def _overlaid(self, ctx: RequestContext, response: Message, error: ErrorCode) -> Message:
        """The real response with the error in the place of what succeeded."""
        api, version = ctx.api_key, ctx.api_version
        selection = _selection(ctx.services, self._fault)
        place = place_of(api, version, error, selection)
        if not place:
            return with_error(api, response, version, error)
        return replaced(place, response, version, error, selection)
