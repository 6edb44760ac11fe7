"""DeleteAcls (API 31), versions 1 to 3: there is no authorizer to ask, as Kafka says it then."""

from typing import Final

from gateway.context import RequestContext
from wire.errors import ErrorCode
from wire.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse

REQUEST: Final = DeleteAclsRequest


async def handle(_ctx: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse:
    """Say of each filter that security is off."""
    error = ErrorCode.SECURITY_DISABLED
    result = DeleteAclsFilterResult(error_code=error, error_message=error.message)
    return DeleteAclsResponse(filter_results=(result,) * len(request.filters))
