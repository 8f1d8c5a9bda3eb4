/* recipe_state.c - user, working directory and environment between two steps: see recipe.h. */
#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "daemon/images/recipe.h"
#include "lib/base/text_hash.h"

void recipe_state_init(struct recipe_state *s)
{
	*s = (struct recipe_state){ .user = "root" };
	buf_init(&s->env, RECIPE_ENV_MAX);
}

void recipe_state_release(struct recipe_state *s)
{
	buf_release(&s->env);
}

static int check_variables(unsigned n, struct err *e)
{
	if (n <= RECIPE_VARIABLES_MAX)
		return 0;
	return err_set(e, ERR_LIMIT,
		       "the environment has more than %d variables: remove some in the base",
		       RECIPE_VARIABLES_MAX);
}

static unsigned recipe_state_count(const char *env, size_t len)
{
	unsigned n = 0;

	for (size_t at = 0; at < len; at += strlen(env + at) + 1)
		n++;
	return n;
}

int recipe_state_set(struct recipe_state *s, const char *user, const char *workdir, const void *env,
		     size_t env_len, struct err *e)
{
	if (strlen(user) >= sizeof(s->user) || strlen(workdir) >= sizeof(s->workdir))
		return err_set(e, ERR_LIMIT, "user or working directory is too long");
	if (check_variables(recipe_state_count(env, env_len), e) < 0)
		return -1;
	memcpy(s->user, user, strlen(user) + 1);
	memcpy(s->workdir, workdir, strlen(workdir) + 1);
	buf_clear(&s->env);
	s->variables = recipe_state_count(env, env_len);
	return buf_add(&s->env, env, env_len, e);
}

/* ---- the environment */

/* The value, and where the variable begins in env. NULL: not set. */
static const char *recipe_state_find(const struct recipe_state *s, const char *name, size_t len,
				     size_t *ret_at)
{
	const char *env = (const char *)s->env.data;

	for (size_t at = 0; at < s->env.len; at += strlen(env + at) + 1)
		if (strncmp(env + at, name, len) == 0 && env[at + len] == '=') {
			*ret_at = at;
			return env + at + len + 1;
		}
	return NULL;
}

const char *recipe_state_env(const struct recipe_state *s, const char *name, size_t len)
{
	size_t at;

	return recipe_state_find(s, name, len, &at);
}

static size_t name_length(const char *text)
{
	size_t n = 0;

	if (!isalpha((unsigned char)text[0]) && text[0] != '_')
		return 0;
	while (isalnum((unsigned char)text[n]) || text[n] == '_')
		n++;
	return n;
}

/* The variables by the hash of their names, made for one value: it may refer to hundreds of them,
 * and there may be thousands. */
#define PLACES 4096U /* a power of two */

static_assert(PLACES >= 2 * RECIPE_VARIABLES_MAX, "half of the places are free");

struct env_index {
	const char *env;     /* borrowed */
	uint32_t at[PLACES]; /* of a variable, plus one. 0: free */
};

/* Its place, or the free one where it would be. */
static uint32_t *index_place(struct env_index *x, const char *name, size_t len)
{
	size_t i = text_hash_part(name, len) % PLACES;

	while (x->at[i] != 0) {
		const char *found = x->env + x->at[i] - 1;

		if (strncmp(found, name, len) == 0 && found[len] == '=')
			break;
		i = (i + 1) % PLACES;
	}
	return &x->at[i];
}

/* The first of a name counts: an image may have two. */
static void index_make(struct env_index *x, const struct recipe_state *s)
{
	*x = (struct env_index){ .env = (const char *)s->env.data };
	for (size_t at = 0; at < s->env.len; at += strlen(x->env + at) + 1) {
		const char *end = strchr(x->env + at, '=');
		uint32_t *place;

		if (end == NULL)
			continue;
		place = index_place(x, x->env + at, (size_t)(end - x->env) - at);
		if (*place == 0)
			*place = (uint32_t)at + 1;
	}
}

static const char *index_find(struct env_index *x, const char *name, size_t len)
{
	uint32_t at = *index_place(x, name, len);

	return at == 0 ? NULL : x->env + at - 1 + len + 1;
}

/* Expand the reference behind a '$'. Return how many bytes it took. 0: it is no reference. */
static size_t expand_one(struct env_index *x, const char *text, struct buf *to)
{
	bool braces = text[0] == '{';
	size_t n = name_length(text + braces);
	const char *value, *rest = text + braces + n, *end;

	if (n == 0)
		return 0;
	value = index_find(x, text + braces, n);
	if (!braces) {
		buf_put_text(to, value == NULL ? "" : value);
		return n;
	}
	end = strchr(rest, '}');
	if (end == NULL || (end != rest && (rest[0] != ':' || rest[1] != '-')))
		return 0;
	if (value != NULL && value[0] != '\0')
		buf_put_text(to, value);
	else if (end != rest)
		buf_put(to, rest + 2, (size_t)(end - rest) - 2);
	return (size_t)(end - text) + 1;
}

static int recipe_state_expand(const struct recipe_state *s, const char *text, struct buf *to,
			       struct err *e)
{
	unsigned references = 0;
	struct env_index x;

	if (strchr(text, '$') != NULL)
		index_make(&x, s);
	while (*text != '\0') {
		size_t taken = 0;

		if (*text == '\\' && text[1] != '\0' && strchr("$\"`\\", text[1]) != NULL) {
			buf_put(to, text + 1, 1);
			text += 2;
			continue;
		}
		if (*text == '$' && ++references > RECIPE_REFERENCES_MAX)
			return err_set(e, ERR_LIMIT, "more than %d references to variables",
				       RECIPE_REFERENCES_MAX);
		if (*text == '$')
			taken = expand_one(&x, text + 1, to);
		if (taken == 0)
			buf_put(to, text, 1);
		text += taken + 1;
	}
	return 0;
}

static void remove_env(struct recipe_state *s, const char *name)
{
	size_t at, n;

	if (recipe_state_find(s, name, strlen(name), &at) == NULL)
		return;
	n = strlen((const char *)s->env.data + at) + 1;
	memmove(s->env.data + at, s->env.data + at + n, s->env.len - at - n);
	s->env.len -= n;
	s->variables--;
}

/* The new value may refer to the old one, so that is removed after the expansion. */
int recipe_state_set_env(struct recipe_state *s, const char *name, const char *value, struct err *e)
{
	struct buf made = BUF_INIT(RECIPE_TEXT_MAX);
	int rc;

	buf_printf(&made, "%s=", name);
	rc = recipe_state_expand(s, value, &made, e);
	buf_put(&made, "", 1);
	if (rc == 0)
		rc = buf_check(&made, e);
	if (rc == 0) {
		remove_env(s, name);
		rc = check_variables(s->variables + 1, e);
	}
	if (rc == 0)
		rc = buf_add(&s->env, made.data, made.len, e);
	s->variables += rc == 0;
	buf_release(&made);
	return rc < 0 ? err_wrap(e, "ENV %.60s", name) : 0;
}

/* ---- paths */

/* Append the components of a path, without "." and by resolving ".." as text. */
static bool recipe_state_append(char *to, size_t *len, const char *path)
{
	while (*path != '\0') {
		size_t n = strcspn(path, "/");

		if (n == 2 && memcmp(path, "..", 2) == 0) {
			while (*len > 0 && to[--*len] != '/')
				;
		} else if (n > 0 && !(n == 1 && *path == '.')) {
			if (*len + n + 2 >= RECIPE_PATH_MAX)
				return false;
			to[(*len)++] = '/';
			memcpy(to + *len, path, n);
			*len += n;
		}
		path += n + (path[n] == '/');
	}
	return true;
}

/* ".." at the root stays there. */
int recipe_state_path(const struct recipe_state *s, const char *path, const char *base,
		      char ret[RECIPE_PATH_MAX], struct err *e)
{
	size_t len = 0, n = strlen(path);
	bool slash = n > 0 && path[n - 1] == '/';

	if ((path[0] != '/' &&
	     !recipe_state_append(ret, &len, s->workdir[0] != '\0' ? s->workdir : base)) ||
	    !recipe_state_append(ret, &len, path))
		return err_set(e, ERR_INVALID, "path is too long: %.100s", path);
	if (len == 0 || slash)
		ret[len++] = '/';
	ret[len] = '\0';
	return 0;
}

int recipe_copy_entry(const char *source, char ret[RECIPE_PATH_MAX], struct err *e)
{
	size_t len = 0;

	while (*source != '\0') {
		size_t n = strcspn(source, "/");

		if (n == 2 && memcmp(source, "..", 2) == 0)
			return err_set(e, ERR_INVALID, "COPY: a source with '..' in it");
		if (strcspn(source, "*?[{") < n)
			break;
		if (n > 0 && !(n == 1 && *source == '.')) {
			if (len + n + 2 >= RECIPE_PATH_MAX)
				return err_set(e, ERR_INVALID, "COPY: a source that is too long");
			if (len > 0)
				ret[len++] = '/';
			memcpy(ret + len, source, n);
			len += n;
		}
		source += n + (source[n] == '/');
	}
	ret[len] = '\0';
	return 0;
}
