#include "front/mcptools/resource_uri.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/own.h"
#include "lib/base/session_id.h"
#include "lib/base/utf8.h"
#include "lib/http/url.h"

/* ---- kinds of files */

/* By the first bytes, never by a name. */
const char *file_kind_image(const uint8_t *bytes, size_t n)
{
	static const struct {
		const char *begin;
		size_t n;
		const char *type;
	} kinds[] = { { "\x89PNG\r\n\x1a\n", 8, "image/png" },
		      { "\xff\xd8\xff", 3, "image/jpeg" },
		      { "GIF87a", 6, "image/gif" },
		      { "GIF89a", 6, "image/gif" } };

	for (size_t i = 0; i < COUNT(kinds); i++)
		if (n >= kinds[i].n && memcmp(bytes, kinds[i].begin, kinds[i].n) == 0)
			return kinds[i].type;
	if (n >= 12 && memcmp(bytes, "RIFF", 4) == 0 && memcmp(bytes + 8, "WEBP", 4) == 0)
		return "image/webp";
	return NULL;
}

/* Of the first 4096 bytes one in eight may be outside UTF-8, as a text in another encoding has
 * some. */
bool file_kind_is_binary(const uint8_t *bytes, size_t n)
{
	size_t bad = 0, look = n < 4096 ? n : 4096, at = 0;

	if (look > 0 && memchr(bytes, '\0', look) != NULL)
		return true;
	while (at < look) {
		size_t len = utf8_length(bytes + at, n - at);

		bad += len == 0;
		at += len == 0 ? 1 : len;
	}
	return bad > look / 8;
}

/* ---- addresses */

/* The parts of an address are split first and decoded second, so an encoded slash separates
 * nothing. Only the path of a file is decoded. */
static const char prefix[] = "cordon://sessions/";

/* Take the part up to the next slash off the front. */
static struct http1_span next_part(struct http1_span *rest)
{
	const char *slash = rest->n == 0 ? NULL : memchr(rest->p, '/', rest->n);
	struct http1_span part = { rest->p, slash == NULL ? rest->n : (size_t)(slash - rest->p) };
	size_t used = part.n + (slash != NULL);

	rest->p += used;
	rest->n -= used;
	return part;
}

/* "ID/output", and nothing behind it. */
static bool read_execution(struct http1_span rest, char ret[REQUEST_ID_MAX])
{
	struct http1_span id = next_part(&rest);

	if (!http1_span_is(rest, "output") || id.n == 0 || id.n >= REQUEST_ID_MAX)
		return false;
	memcpy(ret, id.p, id.n);
	ret[id.n] = '\0';
	return strspn(ret, "abcdefghijklmnopqrstuvwxyz0123456789_") == id.n;
}

/* The part behind the session's id. */
static enum resource_kind read_rest(struct http1_span rest, struct resource_uri *u)
{
	struct http1_span word;

	if (rest.n == 0)
		return RESOURCE_SESSION;
	word = next_part(&rest);
	if (http1_span_is(word, "changes") && rest.n == 0)
		return RESOURCE_CHANGES;
	if (http1_span_is(word, "executions") && read_execution(rest, u->execution))
		return RESOURCE_OUTPUT;
	if (!http1_span_is(word, "files") || rest.n == 0)
		return RESOURCE_NONE;
	u->path[0] = '/';
	return url_decode(rest, u->path + 1, sizeof(u->path) - 1) > 0 ? RESOURCE_FILE
								      : RESOURCE_NONE;
}

void resource_uri_read(struct json_span uri, struct resource_uri *ret)
{
	struct http1_span rest, id;
	size_t n = sizeof(prefix) - 1;

	*ret = (struct resource_uri){ .kind = RESOURCE_NONE };
	if (uri.p == NULL || uri.n <= n || memcmp(uri.p, prefix, n) != 0)
		return;
	rest = (struct http1_span){ uri.p + n, uri.n - n };
	id = next_part(&rest);
	if (session_id_read(id.p, id.n, ret->session))
		ret->kind = read_rest(rest, ret);
}

/* Every byte outside of the plain ones is escaped. */
bool resource_uri_file(const char *session, const char *path, char ret[RESOURCE_URI_MAX])
{
	static const char plain[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/";
	int n = snprintf(ret, RESOURCE_URI_MAX, "%s%s/files/", prefix, session);
	size_t at = (size_t)n;

	if (path[0] != '/')
		return false;
	for (path++; *path != '\0'; path++) {
		if (at + 4 > RESOURCE_URI_MAX)
			return false;
		if (strchr(plain, *path) != NULL) {
			ret[at++] = *path;
			ret[at] = '\0';
		} else {
			at += (size_t)snprintf(ret + at, RESOURCE_URI_MAX - at, "%%%02X",
					       (unsigned char)*path);
		}
	}
	return true;
}
