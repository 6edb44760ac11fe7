"""DescribeUserScramCredentials (API 50), version 0: the SCRAM mechanisms of users (KIP-554)."""

from typing import Final

from odradek.coordinator.metadata.controller.scram import describe_user_scram_credentials
from odradek.gateway.server.context import RequestContext
from odradek.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)

REQUEST: Final = DescribeUserScramCredentialsRequest


async def handle(
    ctx: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Answer from the published image."""
    return describe_user_scram_credentials(ctx.services.metadata.image, request)
