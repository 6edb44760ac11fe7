"""CreateAcls (API 30), versions 1 to 3: there is no authorizer to give them to, as Kafka says it then."""

from typing import Final

from gateway.context import RequestContext
from wire.errors import ErrorCode
from wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse

REQUEST: Final = CreateAclsRequest


async def handle(_ctx: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:
    """Say of each that security is off."""
    error = ErrorCode.SECURITY_DISABLED
    result = AclCreationResult(error_code=error, error_message=error.message)
    return CreateAclsResponse(results=(result,) * len(request.creations))
