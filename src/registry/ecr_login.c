#include "ecr_login.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "oci_ecr.h"
#include "registry_json.h"

#define TYPE "application/x-amz-json-1.1"
#define CALL "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken"

int ecr_login_ask(const struct login *l, struct ecr_login *ret, struct err *e)
{
	struct aws_sign sign = { .key_id = l->user,
				 .secret = l->password,
				 .service = "ecr",
				 .type = TYPE,
				 .target = CALL,
				 .body = "{}" };
	struct oci_ecr ecr;
	char stamp[32];

	if (!oci_ecr_read(l->home.host, &ecr))
		return err_set(e, ERR_INVALID, "%.100s is not a registry of AWS", l->home.host);
	ret->to = (struct address){ .tls = true, .port = 443, .target = "/" };
	(void)snprintf(ret->to.host, sizeof(ret->to.host), "%s", ecr.api);
	clock_stamp(stamp, sizeof(stamp));
	aws_sign_date(stamp, sign.date);
	memcpy(ret->date, sign.date, sizeof(ret->date));
	sign.region = ecr.region;
	sign.host = ret->to.host;
	if (aws_sign(&sign, ret->authorization, e) < 0)
		return -1;
	ret->headers[0] = (struct get_header){ "Content-Type", TYPE };
	ret->headers[1] = (struct get_header){ "X-Amz-Date", ret->date };
	ret->headers[2] = (struct get_header){ "X-Amz-Target", CALL };
	ret->post = (struct get_post){ .body = sign.body,
				       .headers = ret->headers,
				       .nheaders = ECR_LOGIN_HEADERS };
	return 0;
}

int ecr_login_take(struct login *l, const char *text, size_t len, struct err *e)
{
	char *token = registry_json_ecr(text, len);
	int rc = token == NULL ? err_set(e, ERR_INVALID, "the answer of AWS has no token")
			       : login_set(l, "Basic", token, e);

	if (token != NULL)
		explicit_bzero(token, strlen(token));
	free(token);
	return rc;
}
