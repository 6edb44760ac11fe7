"""DeleteAcls (API 31), versions 1 to 3: refused with Kafka's error, since there is no authorizer."""

from typing import Final

from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse

REQUEST: Final = DeleteAclsRequest
NO_AUTHORIZER: Final = "There are no ACLs, for this broker has no authorizer."


async def handle(_ctx: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse:
    """Return SECURITY_DISABLED for each filter."""
    result = DeleteAclsFilterResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
    return DeleteAclsResponse(filter_results=(result,) * len(request.filters))
