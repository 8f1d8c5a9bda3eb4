/* login.h - what a pull shows to its registry: the Authorization header of its requests, and how it
 * is obtained. Used by fetch.c; it makes no request itself.
 *
 * Credentials and tokens are sent to the registry that was asked for (`home`) and to the token
 * server that it named, by https or to loopback. A redirect to any other host gets none. */
#pragma once

#include "address.h"
#include "challenge.h"

struct login {
	struct address home;
	const char *repository;	     /* borrowed */
	const char *user, *password; /* borrowed; "": anonymous */
	bool aws;		     /* they are an access key of AWS: see ecr_login.h */
	char *header;		     /* owned: value of Authorization; NULL: none yet */
};

void login_release(struct login *l);
/* The header for a request there; NULL: none. */
const char *login_header(const struct login *l, const struct address *to);

/* Sets the header to "SCHEME TEXT". */
int login_set(struct login *l, const char *scheme, const char *text, struct err *e) MUST_USE;
/* A Basic challenge. ERR_DENIED without credentials. */
int login_basic(struct login *l, struct err *e) MUST_USE;
/* A Bearer challenge: where the token is asked for, and the value of Authorization of that request,
 * malloc'ed (NULL: none). */
int login_token_address(const struct login *l, const struct challenge *c, struct address *ret,
			char **ret_header, struct err *e) MUST_USE;
/* The answer of the token server. */
int login_token(struct login *l, const char *text, size_t len, struct err *e) MUST_USE;
