#include "session_env.h"

#include <string.h>

#include "json_read.h"

extern char **environ;

static bool names_same(const char *a, const char *b)
{
	size_t n = strcspn(a, "=");

	return strncmp(a, b, n + 1) == 0;
}

/* Takes text. In place of a variable of the same name, or behind the last. */
static void put(char **env, size_t *n, char *text)
{
	for (size_t i = 0; i < *n; i++)
		if (names_same(env[i], text)) {
			free(env[i]);
			env[i] = text;
			return;
		}
	env[(*n)++] = text;
}

/* "NAME=value"; the caller frees it. */
static char *make_text(struct json_value name, struct json_value value)
{
	struct buf b = BUF_INIT(8U << 20);
	struct err e;

	if (json_read_text(name, &b, &e) < 0 || buf_add(&b, "=", 1, &e) < 0 ||
	    json_read_text(value, &b, &e) < 0 || buf_add(&b, "", 1, &e) < 0) {
		buf_release(&b);
		return NULL;
	}
	return (char *)b.data;
}

static size_t count_members(struct json_value v)
{
	struct json_value name, value;
	const char *at = NULL;
	size_t n = 0;

	while (json_read_next(v, &at, &name, &value))
		n++;
	return n;
}

char **session_env_make(const struct buf *json)
{
	struct json_value v = { 0 }, name, value;
	const char *at = NULL;
	size_t n = 0, own = 0;
	struct err e;
	char **env;

	if (json->len > 0 && json_read((const char *)json->data, json->len, 8, &v, &e) < 0)
		return NULL;
	while (environ[own] != NULL)
		own++;
	env = calloc(own + count_members(v) + 1, sizeof(*env));
	for (size_t i = 0; env != NULL && i < own; i++) {
		char *text = strdup(environ[i]);

		if (text != NULL)
			put(env, &n, text);
	}
	while (env != NULL && json_read_next(v, &at, &name, &value)) {
		char *text = make_text(name, value);

		if (text != NULL)
			put(env, &n, text);
	}
	return env;
}

void session_env_free(char **env)
{
	for (size_t i = 0; env != NULL && env[i] != NULL; i++)
		free(env[i]);
	free(env);
}
