"""DeleteAcls (API 31), versions 1 to 3: there is no authorizer to ask, as Kafka says it then."""

from typing import Final

from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse

REQUEST: Final = DeleteAclsRequest
NO_AUTHORIZER: Final = "There are no ACLs, for this broker has no authorizer."


async def handle(_ctx: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse:
    """Say of each filter that security is off."""
    result = DeleteAclsFilterResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
    return DeleteAclsResponse(filter_results=(result,) * len(request.filters))
