/* aws_sign.h - signs a POST request to an API of AWS (Signature Version 4). Pure. Called by
 * ecr_login.c.
 *
 * The signature covers the headers Content-Type, Host, X-Amz-Date and X-Amz-Target, and the body.
 * The secret stays here: the request has only what was made from it, which is good for this request
 * and a few minutes. */
#pragma once

#include "err.h"

#define AWS_SIGN_DATE_MAX 17 /* "20261116T131500Z", with NUL */
#define AWS_SIGN_MAX 512     /* of the value of Authorization */

struct aws_sign {
	const char *key_id, *secret;
	const char *region, *service;
	const char *host, *type, *target; /* values of Host, Content-Type and X-Amz-Target */
	const char *body;
	char date[AWS_SIGN_DATE_MAX]; /* value of X-Amz-Date: aws_sign_date() */
};

/* Of a time as clock_stamp() writes it. */
void aws_sign_date(const char *stamp, char ret[AWS_SIGN_DATE_MAX]);
/* The value of Authorization. ERR_INVALID: the credentials or names are too long. */
int aws_sign(const struct aws_sign *a, char ret[AWS_SIGN_MAX], struct err *e) MUST_USE;
