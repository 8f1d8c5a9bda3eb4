#include "repository_arg.h"

#include <stdbool.h>
#include <string.h>

#define ALNUM "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
#define HTTPS "https://"

static bool copy(struct json_span from, char *to, size_t cap)
{
	if (from.p == NULL || from.n >= cap || memchr(from.p, '\0', from.n) != NULL)
		return false;
	memcpy(to, from.p, from.n);
	to[from.n] = '\0';
	return true;
}

/* A name, and perhaps a port. Returns its end, or NULL. */
static const char *read_host(const char *at, struct repository_arg *ret)
{
	size_t n = strspn(at, ALNUM ".-"), digits;

	if (n == 0 || !copy((struct json_span){ at, n }, ret->host, sizeof(ret->host)) ||
	    strchr(".-", at[0]) != NULL)
		return NULL;
	at += n;
	if (at[0] != ':')
		return at;
	digits = strspn(at + 1, "0123456789");
	return digits == 0 || digits > 5 ? NULL : at + 1 + digits;
}

/* Parts that are neither empty nor begin with a dot or a dash. */
static bool are_parts(const char *path)
{
	if (path[0] != '/' || path[strspn(path, ALNUM "/-_.~+")] != '\0')
		return false;
	for (const char *at = path; (at = strchr(at, '/')) != NULL; at++)
		if (at[1] == '\0' || strchr("/.-", at[1]) != NULL)
			return false;
	return true;
}

static bool read_name(const char *path, struct repository_arg *ret)
{
	const char *last = strrchr(path, '/') + 1;
	size_t n = strlen(last);

	if (n > 4 && strcmp(last + n - 4, ".git") == 0)
		n -= 4;
	return copy((struct json_span){ last, n }, ret->name, sizeof(ret->name));
}

static int read_url(struct repository_arg *ret, struct err *e)
{
	const char *path;

	if (strncmp(ret->url, HTTPS, strlen(HTTPS)) != 0)
		return err_set(e, ERR_INVALID, "repository.url: must begin with https://");
	if (strchr(ret->url, '@') != NULL)
		return err_set(e, ERR_INVALID,
			       "repository.url: must have no user name or password; the network "
			       "policy can add credentials");
	path = read_host(ret->url + strlen(HTTPS), ret);
	if (path == NULL || !are_parts(path) || !read_name(path, ret))
		return err_set(
			e, ERR_INVALID,
			"repository.url: must be https://HOST/PATH of letters, digits, '-', "
			"'_', '.', '~', '+', each part of the path beginning with one of the "
			"first two or '_'");
	return 0;
}

static bool is_ref(const char *ref)
{
	return strchr("-/.", ref[0]) == NULL && ref[strspn(ref, ALNUM "/-_.+")] == '\0' &&
	       strstr(ref, "..") == NULL;
}

int repository_arg_read(const struct json_node *arg, struct repository_arg *ret, struct err *e)
{
	struct json_span ref = json_tree_get_text(arg, "ref");

	if (!copy(json_tree_get_text(arg, "url"), ret->url, sizeof(ret->url)))
		return err_set(e, ERR_INVALID, "repository.url: is too long, or has a NUL");
	ret->ref[0] = '\0';
	if (ref.p != NULL && (!copy(ref, ret->ref, sizeof(ret->ref)) || !is_ref(ret->ref)))
		return err_set(e, ERR_INVALID,
			       "repository.ref: must be the name of a branch or a tag, of letters, "
			       "digits, '/', '-', '_', '.', '+'");
	return read_url(ret, e);
}
