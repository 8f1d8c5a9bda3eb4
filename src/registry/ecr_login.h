/* ecr_login.h - the password of a registry of AWS, by the GetAuthorizationToken call of its API.
 * Called by fetch.c when such a registry sends a challenge; makes no request itself.
 *
 * The API's host follows from the registry's name, so the signed request goes to AWS whatever the
 * registry answers. What the API gives is shown to the registry alone (login.h). */
#pragma once

#include "aws_sign.h"
#include "get.h"
#include "login.h"

#define ECR_LOGIN_HEADERS 3

struct ecr_login {
	struct address to;
	struct get_post post;
	struct get_header headers[ECR_LOGIN_HEADERS];
	char date[AWS_SIGN_DATE_MAX];
	char authorization[AWS_SIGN_MAX];
};

/* The request; `ret` points into itself. */
int ecr_login_ask(const struct login *l, struct ecr_login *ret, struct err *e) MUST_USE;
/* The answer of the API. */
int ecr_login_take(struct login *l, const char *text, size_t len, struct err *e) MUST_USE;
