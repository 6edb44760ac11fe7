"""DescribeAcls (API 29), versions 1 to 3: refused with Kafka's error, since there is no authorizer."""

from typing import Final

from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

REQUEST: Final = DescribeAclsRequest
NO_AUTHORIZER: Final = "There are no ACLs, for this broker has no authorizer."


async def handle(_ctx: RequestContext, _request: DescribeAclsRequest) -> DescribeAclsResponse:
    """Return SECURITY_DISABLED."""
    return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
