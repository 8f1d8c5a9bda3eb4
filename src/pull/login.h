/* login.h - the credentials that a pull shows to its registry: the Authorization header of its
 * requests, and how it is obtained. Used by fetch.c. It makes no request itself.
 *
 * Credentials and tokens are sent to the requested registry (`home`) and to the token server that
 * it named, by https or to loopback. A redirect to any other host gets none. */
#pragma once

#include "lib/base/err.h"
#include "pull/address.h"
#include "pull/challenge.h"
#include "pull/get.h"

struct login {
	struct address home;
	const char *repository;	     /* borrowed */
	const char *user, *password; /* borrowed. "": anonymous */
	bool aws;		     /* they are an access key of AWS */
	char *header;		     /* owned: value of Authorization. NULL: none yet */
};

void login_release(struct login *l);
/* The header for a request there. NULL: none. */
const char *login_header(const struct login *l, const struct address *to);

/* A Basic challenge. ERR_DENIED without credentials. */
int login_basic(struct login *l, struct err *e) MUST_USE;
/* A Bearer challenge: where the token is asked for, and the value of Authorization of that request,
 * malloc'ed (NULL: none). */
int login_token_address(const struct login *l, const struct challenge *c, struct address *ret,
			char **ret_header, struct err *e) MUST_USE;
/* The answer of the token server. */
int login_token(struct login *l, const char *text, size_t len, struct err *e) MUST_USE;

/* ---- POST requests signed for an API of AWS (Signature Version 4)
 *
 * The signature covers the headers Content-Type, Host, X-Amz-Date and X-Amz-Target, and the body.
 * The request carries a signature instead of the secret. It is valid for this request and for a few
 * minutes. */

#define AWS_SIGN_DATE_MAX 17 /* "20261116T131500Z", with NUL */
#define AWS_SIGN_MAX 512     /* of the value of Authorization */

struct aws_sign {
	const char *key_id, *secret;
	const char *region, *service;
	const char *host, *type, *target; /* values of Host, Content-Type and X-Amz-Target */
	const char *body;
	char date[AWS_SIGN_DATE_MAX]; /* value of X-Amz-Date: aws_sign_date() */
};

/* For a time as clock_stamp() writes it. */
void aws_sign_date(const char *stamp, char ret[AWS_SIGN_DATE_MAX]);
/* The value of Authorization. ERR_INVALID: the credentials or names are too long. */
int aws_sign(const struct aws_sign *a, char ret[AWS_SIGN_MAX], struct err *e) MUST_USE;

/* ---- the password of a registry of AWS, by the GetAuthorizationToken call of its API
 *
 * The API's host follows from the registry's name, so the signed request goes to AWS with any
 * answer of the registry. The password that the API gives is shown to the registry alone. */

#define ECR_LOGIN_HEADERS 3

struct ecr_login {
	struct address to;
	struct get_post post;
	struct get_header headers[ECR_LOGIN_HEADERS];
	char date[AWS_SIGN_DATE_MAX];
	char authorization[AWS_SIGN_MAX];
};

/* The request. `ret` points into itself. */
int ecr_login_ask(const struct login *l, struct ecr_login *ret, struct err *e) MUST_USE;
/* The answer of the API. */
int ecr_login_take(struct login *l, const char *text, size_t len, struct err *e) MUST_USE;
