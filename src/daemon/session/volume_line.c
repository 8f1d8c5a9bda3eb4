#include "daemon/session/volume_line.h"

#include <stdio.h>
#include <string.h>

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
#define PREFIX "volume:"

void volume_line_write(const struct store_volume *v, char ret_source[VOLUME_LINE_SOURCE_MAX])
{
	(void)snprintf(ret_source, VOLUME_LINE_SOURCE_MAX, PREFIX "%s:%s", v->id, v->name);
}

bool volume_line_is(const char *source)
{
	return strncmp(source, PREFIX, sizeof(PREFIX) - 1) == 0;
}

/* Copy a field that ends with that character, before any of the others. NULL if it does not, or
 * does not fit. */
static const char *volume_line_take(const char *at, const char *others, char end, char *ret,
				    size_t cap)
{
	size_t n = 0;

	while (at[n] != end && at[n] != '\0' && strchr(others, at[n]) == NULL)
		n++;
	if (at[n] != end || n >= cap)
		return NULL;
	memcpy(ret, at, n);
	ret[n] = '\0';
	return at + n + 1;
}

/* Read one line. False if it is no volume. */
static bool read_line(const char *line, struct volume_line *ret)
{
	char mode[4];

	if (!volume_line_is(line) ||
	    (line = volume_line_take(line + sizeof(PREFIX) - 1, "\t\n", ':', ret->id,
				     sizeof(ret->id))) == NULL ||
	    (line = volume_line_take(line, "\n", '\t', ret->name, sizeof(ret->name))) == NULL ||
	    (line = volume_line_take(line, "\n", '\t', ret->target, sizeof(ret->target))) == NULL ||
	    volume_line_take(line, "\t", '\n', mode, sizeof(mode)) == NULL)
		return false;
	ret->writable = strcmp(mode, "rw") == 0;
	return true;
}

bool volume_line_next(const char **at, struct volume_line *ret)
{
	while (*at != NULL && **at != '\0') {
		const char *line = *at, *end = strchr(line, '\n');

		*at = end == NULL ? line + strlen(line) : end + 1;
		if (read_line(line, ret))
			return true;
	}
	return false;
}

bool volume_line_id(const char *source, char ret_id[STORE_ID_MAX])
{
	return volume_line_take(source + sizeof(PREFIX) - 1, "\t\n", ':', ret_id, STORE_ID_MAX) !=
	       NULL;
}

bool volume_line_is_name(const char *s)
{
	size_t n = strlen(s);

	return n > 0 && n <= VOLUME_NAME_MAX && strspn(s, LETTERS) == n;
}
