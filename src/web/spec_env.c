#include "spec_env.h"

#include <string.h>

/* A name that is valid in a shell, too. */
static bool is_name(const char *s)
{
	static const char first[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
	size_t n = strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789");

	return *s != '\0' && strchr(first, *s) != NULL && s[n] == '\0' && n <= 256;
}

int spec_env_read(struct json_members *m, const char *name, size_t max, struct buf *to)
{
	json_t *env = json_members_object(m, name, max), *value;
	const char *key;
	struct err e;
	int n = 0;

	if (env == NULL)
		return m->failed ? -1 : 0;
	json_object_foreach(env, key, value)
	{
		if (!is_name(key))
			return json_members_fail(m, name, "a name is not [A-Za-z_][A-Za-z0-9_]*");
		if (!json_is_string(value))
			return json_members_fail(m, name, "a value is not a string");
		buf_printf(to, "%s=", key);
		buf_put(to, json_string_value(value), json_string_length(value) + 1);
		n++;
	}
	if (buf_check(to, &e) < 0)
		return json_members_fail(m, name, "is too large");
	return n;
}
