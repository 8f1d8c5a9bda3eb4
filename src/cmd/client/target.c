/* target.c - see target.h. A target grows by parts and queries in a fixed buffer. Parts are
 * escaped, so a name from the command line cannot add a part or a query. */
#include "cmd/client/target.h"

#include <stdio.h>
#include <string.h>

#include "lib/http/url.h"

/* An id ends at the first colon, so a path may have more of them. Characters that no id has make
 * it a local path. */
bool session_path_split(const char *word, char *ret_id, size_t cap, const char **ret_path)
{
	size_t n = strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");

	if (n == 0 || n >= cap || word[n] != ':')
		return false;
	memcpy(ret_id, word, n);
	ret_id[n] = '\0';
	*ret_path = word[n + 1] == '\0' ? "." : word + n + 1;
	return true;
}

/* The name that a copy gets: that of the source, as cp(1) does. */
bool session_path_name(const char *path, char *ret, size_t cap)
{
	size_t end = strlen(path), start;

	while (end > 0 && path[end - 1] == '/')
		end--;
	start = end;
	while (start > 0 && path[start - 1] != '/')
		start--;
	if (end == start || end - start >= cap)
		return false;
	memcpy(ret, path + start, end - start);
	ret[end - start] = '\0';
	return strcmp(ret, ".") != 0 && strcmp(ret, "..") != 0;
}

/* Once a piece does not fit, `full` stays set, and target_text() reports it. So the callers need
 * no checks between. */
static void target_put(struct target *t, const char *text)
{
	size_t n = strlen(text);

	if (t->full || n >= sizeof(t->text) - t->n) {
		t->full = true;
		return;
	}
	memcpy(t->text + t->n, text, n + 1);
	t->n += n;
}

static void put_escaped(struct target *t, const char *text)
{
	int n = t->full ? -1
			: url_encode(text, strlen(text), t->text + t->n, sizeof(t->text) - t->n);

	if (n < 0)
		t->full = true;
	else
		t->n += (size_t)n;
}

/* base is a text of this program and is not escaped. */
void target_init(struct target *t, const char *base)
{
	t->n = 0;
	t->full = t->query = false;
	t->text[0] = '\0';
	target_put(t, base);
}

void target_part(struct target *t, const char *part)
{
	target_put(t, "/");
	put_escaped(t, part);
}

/* The name and the value are escaped, so a value may have '&' and '='. */
void target_query(struct target *t, const char *name, const char *value)
{
	if (value == NULL)
		return;
	target_put(t, t->query ? "&" : "?");
	t->query = true;
	put_escaped(t, name);
	target_put(t, "=");
	put_escaped(t, value);
}

void target_query_number(struct target *t, const char *name, uint64_t value)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	target_query(t, name, text);
}

const char *target_text(const struct target *t, struct err *e)
{
	if (t->full) {
		(void)err_set(e, ERR_LIMIT, "the request is too long");
		return NULL;
	}
	return t->text;
}
