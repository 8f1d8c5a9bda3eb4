/* secret_spec.c - see secret_spec.h. */
#include "daemon/secrets/secret_spec.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/str.h"

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
#define DIGITS "0123456789"
#define VARIABLE_MAX 256
#define DEFAULT_OWNER "user" /* of every template */
#define DEFAULT_MODE 0400
#define PLACE "/run/secrets/"

static const struct {
	unsigned way;
	const char *name;
} ways[] = { { SECRET_BROKER, "broker" },
	     { SECRET_ENV, "env" },
	     { SECRET_FILE, "file" },
	     { SECRET_SOCKET, "socket" } };

const char *secret_spec_way(unsigned way)
{
	for (size_t i = 0; i < COUNT(ways); i++)
		if (ways[i].way == way)
			return ways[i].name;
	return "";
}

unsigned secret_spec_find_way(const char *name)
{
	for (size_t i = 0; i < COUNT(ways); i++)
		if (strcmp(ways[i].name, name) == 0)
			return ways[i].way;
	return 0;
}

bool secret_spec_is_name(const char *s)
{
	size_t n = strlen(s);

	return n > 0 && n < STORE_NAME_MAX && s[0] != '.' && s[0] != '-' &&
	       strspn(s, LETTERS DIGITS ".-") == n;
}

static bool secret_spec_is_variable(const char *s)
{
	size_t n = strlen(s);

	return n > 0 && n <= VARIABLE_MAX && strchr(DIGITS, s[0]) == NULL &&
	       strspn(s, LETTERS DIGITS) == n;
}

/* Is it an absolute path without control characters, which separate fields and lines? */
static bool secret_spec_is_path(const char *s)
{
	if (*s != '/')
		return false;
	for (; *s != '\0'; s++)
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			return false;
	return true;
}

/* "" is allowed: the default owner. */
static bool secret_spec_is_user(const char *s)
{
	return strspn(s, LETTERS DIGITS ".-") == strlen(s);
}

/* The name may be written with or without its folder. It is stored without. */
static int secret_spec_check_file(struct secret_spec *l, struct err *e)
{
	size_t n = strlen(PLACE);

	if (strncmp(l->where, PLACE, n) == 0)
		memmove(l->where, l->where + n, strlen(l->where + n) + 1);
	if (l->where[0] == '\0')
		memcpy(l->where, l->name, sizeof(l->name));
	if (!secret_spec_is_name(l->where))
		return err_set(e, ERR_INVALID, "secret %s: path: must be " PLACE "NAME", l->name);
	if (l->owner[0] == '\0')
		str_copy(l->owner, DEFAULT_OWNER);
	if (l->mode == 0)
		l->mode = DEFAULT_MODE;
	if ((l->mode & ~0777U) != 0)
		return err_set(e, ERR_INVALID, "secret %s: mode: at most 0777", l->name);
	return 0;
}

int secret_spec_check(struct secret_spec *l, struct err *e)
{
	if (!secret_spec_is_name(l->name))
		return err_set(e, ERR_INVALID, "secret: '%.64s' is not a name", l->name);
	if (!secret_spec_is_user(l->owner))
		return err_set(e, ERR_INVALID, "secret %s: owner: not a name of a user", l->name);
	switch (l->way) {
	case SECRET_BROKER:
	case SECRET_ENV:
		if (!secret_spec_is_variable(l->where))
			return err_set(e, ERR_INVALID, "secret %s: env: must name a variable",
				       l->name);
		return 0;
	case SECRET_FILE:
		return secret_spec_check_file(l, e);
	case SECRET_SOCKET:
		if (!secret_spec_is_path(l->where))
			return err_set(e, ERR_INVALID,
				       "secret %s: program: must be an absolute path", l->name);
		return 0;
	default:
		return err_set(e, ERR_INVALID, "secret %s: as: must be broker, env, file or socket",
			       l->name);
	}
}

/* Fields were checked before, so none has a tab or a newline. */
void secret_spec_write(const struct secret_spec *l, struct buf *to)
{
	buf_printf(to, "%s\t%s\t", l->name, secret_spec_way(l->way));
	buf_put_text(to, l->where);
	buf_printf(to, "\t%s\t%o\t%s\n", l->owner, (unsigned)l->mode, l->placeholder);
}

/* Copy a field that ends with a separator. NULL if it does not fit or does not end. */
static const char *secret_spec_take(const char *at, char end, char *ret, size_t cap)
{
	size_t n = strcspn(at, "\t\n");

	if (at[n] != end || n >= cap)
		return NULL;
	memcpy(ret, at, n);
	ret[n] = '\0';
	return at + n + 1;
}

bool secret_spec_next(const char **at, struct secret_spec *ret)
{
	const char *p = *at;
	char way[16], mode[16];

	if (p == NULL || *p == '\0')
		return false;
	if ((p = secret_spec_take(p, '\t', ret->name, sizeof(ret->name))) == NULL ||
	    (p = secret_spec_take(p, '\t', way, sizeof(way))) == NULL ||
	    (p = secret_spec_take(p, '\t', ret->where, sizeof(ret->where))) == NULL ||
	    (p = secret_spec_take(p, '\t', ret->owner, sizeof(ret->owner))) == NULL ||
	    (p = secret_spec_take(p, '\t', mode, sizeof(mode))) == NULL ||
	    (p = secret_spec_take(p, '\n', ret->placeholder, sizeof(ret->placeholder))) == NULL)
		return false;
	ret->way = secret_spec_find_way(way);
	ret->mode = (uint32_t)strtoul(mode, NULL, 8) & 0777U;
	*at = p;
	return ret->way != 0;
}
