#include "login.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base64.h"
#include "registry_json.h"
#include "url.h"

static void wipe(char *text)
{
	if (text != NULL)
		explicit_bzero(text, strlen(text));
	free(text);
}

void login_release(struct login *l)
{
	wipe(l->header);
	l->header = NULL;
}

const char *login_header(const struct login *l, const struct address *to)
{
	return address_same_origin(&l->home, to) ? l->header : NULL;
}

/* "Basic ..." of the credentials; NULL: no memory. */
static char *basic_of(const struct login *l)
{
	size_t n = strlen(l->user) + 1 + strlen(l->password);
	size_t cap = sizeof("Basic ") + BASE64_LENGTH(n);
	char *plain = malloc(n + 1), *text = malloc(cap);

	if (plain != NULL && text != NULL) {
		(void)snprintf(plain, n + 1, "%s:%s", l->user, l->password);
		(void)snprintf(text, cap, "Basic ");
		base64_encode(plain, n, text + strlen("Basic "));
		wipe(plain);
		return text;
	}
	free(plain);
	free(text);
	return NULL;
}

int login_set(struct login *l, const char *scheme, const char *text, struct err *e)
{
	size_t cap = strlen(scheme) + 1 + strlen(text) + 1;

	login_release(l);
	l->header = malloc(cap);
	if (l->header == NULL)
		return err_set(e, ERR_SYSTEM, "out of memory");
	(void)snprintf(l->header, cap, "%s %s", scheme, text);
	return 0;
}

int login_basic(struct login *l, struct err *e)
{
	if (l->user[0] == '\0')
		return err_set(e, ERR_DENIED, "the registry wants a user name and a password");
	login_release(l);
	l->header = basic_of(l);
	return l->header == NULL ? err_set(e, ERR_SYSTEM, "out of memory") : 0;
}

static int add_parameter(struct address *a, const char *name, const char *value)
{
	size_t at = strlen(a->target);
	int n = snprintf(a->target + at, sizeof(a->target) - at,
			 "%c%s=", strchr(a->target, '?') != NULL ? '&' : '?', name);

	at += (size_t)n;
	if (at >= sizeof(a->target))
		return -1;
	return url_encode(value, strlen(value), a->target + at, sizeof(a->target) - at) < 0 ? -1
											    : 0;
}

int login_token_address(const struct login *l, const struct challenge *c, struct address *ret,
			char **ret_header, struct err *e)
{
	char scope[CHALLENGE_SCOPE_MAX];

	*ret_header = NULL;
	if (address_read(c->realm, strlen(c->realm), ret, e) < 0)
		return err_wrap(e, "token server");
	(void)snprintf(scope, sizeof(scope), "repository:%.400s:pull", l->repository);
	if ((c->service[0] != '\0' && add_parameter(ret, "service", c->service) < 0) ||
	    add_parameter(ret, "scope", c->scope[0] != '\0' ? c->scope : scope) < 0)
		return err_set(e, ERR_INVALID, "token server: its address is too long");
	if (l->user[0] == '\0')
		return 0;
	*ret_header = basic_of(l);
	return *ret_header == NULL ? err_set(e, ERR_SYSTEM, "out of memory") : 0;
}

int login_token(struct login *l, const char *text, size_t len, struct err *e)
{
	char *token = registry_json_token(text, len);
	int rc;

	if (token == NULL) {
		login_release(l);
		return err_set(e, ERR_INVALID, "the answer of the token server has no token");
	}
	rc = login_set(l, "Bearer", token, e);
	wipe(token);
	return rc;
}
