"""CreateAcls (API 30), versions 1 to 3: refused with Kafka's error, since there is no authorizer."""

from typing import Final

from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse

REQUEST: Final = CreateAclsRequest
NO_AUTHORIZER: Final = "There are no ACLs, for this broker has no authorizer."


async def handle(_ctx: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:
    """Return SECURITY_DISABLED for each entry."""
    result = AclCreationResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
    return CreateAclsResponse(results=(result,) * len(request.creations))
