#include "front/e2b/envd/files_head.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "lib/base/own.h"
#include "lib/http/url.h"

/* ---- Content-Disposition */

/* Types that browsers and clients treat in a special way. All others are bytes. */
static const struct {
	const char *extension, *type;
} types[] = {
	{ "avif", "image/avif" },
	{ "css", "text/css; charset=utf-8" },
	{ "csv", "text/csv; charset=utf-8" },
	{ "gif", "image/gif" },
	{ "gz", "application/gzip" },
	{ "htm", "text/html; charset=utf-8" },
	{ "html", "text/html; charset=utf-8" },
	{ "jpeg", "image/jpeg" },
	{ "jpg", "image/jpeg" },
	{ "js", "text/javascript; charset=utf-8" },
	{ "json", "application/json" },
	{ "log", "text/plain; charset=utf-8" },
	{ "md", "text/markdown; charset=utf-8" },
	{ "mjs", "text/javascript; charset=utf-8" },
	{ "mp3", "audio/mpeg" },
	{ "mp4", "video/mp4" },
	{ "pdf", "application/pdf" },
	{ "png", "image/png" },
	{ "svg", "image/svg+xml" },
	{ "tar", "application/x-tar" },
	{ "txt", "text/plain; charset=utf-8" },
	{ "wasm", "application/wasm" },
	{ "webm", "video/webm" },
	{ "webp", "image/webp" },
	{ "xml", "text/xml; charset=utf-8" },
	{ "zip", "application/zip" },
};

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash == NULL ? path : slash + 1;
}

const char *disposition_type(const char *path)
{
	const char *dot = strrchr(base_name(path), '.');

	for (size_t i = 0; dot != NULL && i < COUNT(types); i++)
		if (strcasecmp(dot + 1, types[i].extension) == 0)
			return types[i].type;
	return "application/octet-stream";
}

/* files_get.c puts such content into a sandbox of the browser. */
bool disposition_is_active(const char *type)
{
	static const char *const active[] = { "text/html", "image/svg+xml", "text/xml" };

	for (size_t i = 0; i < COUNT(active); i++)
		if (strncmp(type, active[i], strlen(active[i])) == 0)
			return true;
	return false;
}

/* Characters outside ASCII become '_' in the plain name. */
void disposition_write(const char *path, char ret[DISPOSITION_MAX])
{
	const char *name = base_name(path);
	char plain[2 * 256], escaped[3 * 256 + 1];
	bool exotic = false;
	size_t n = 0;

	(void)snprintf(ret, DISPOSITION_MAX, "inline");
	if (name[0] == '\0' || strlen(name) > 255)
		return;
	for (const char *p = name; *p != '\0'; p++) {
		bool odd = *p < 0x20 || *p > 0x7e;

		if (*p == '"' || *p == '\\')
			plain[n++] = '\\';
		plain[n++] = (char)(odd ? '_' : *p);
		exotic |= odd;
	}
	plain[n] = '\0';
	if (!exotic)
		(void)snprintf(ret, DISPOSITION_MAX, "inline; filename=\"%s\"", plain);
	else if (url_encode(name, strlen(name), escaped, sizeof(escaped)) >= 0)
		(void)snprintf(ret, DISPOSITION_MAX, "inline; filename=\"%s\"; filename*=UTF-8''%s",
			       plain, escaped);
}

/* ---- the head of an upload */

/* A header's name begins so. Its key follows. */
static const char prefix[] = "x-metadata-";

/* The key in lower case, and the value. */
static int copy_meta(const struct http1_header *h, char key[FILE_META_KEY_MAX],
		     char value[FILE_META_VALUE_MAX], struct err *e)
{
	size_t skip = sizeof(prefix) - 1, n = h->name.n - skip;

	if (n >= FILE_META_KEY_MAX || h->value.n >= FILE_META_VALUE_MAX)
		return err_set(e, ERR_INVALID,
			       "metadata: a key has at most 246 bytes, all keys and "
			       "values together 4096");
	for (size_t i = 0; i < n; i++) {
		char c = h->name.p[skip + i];

		key[i] = (char)(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
	}
	key[n] = '\0';
	for (size_t i = 0; i < h->value.n; i++)
		if (h->value.p[i] < 0x20 || h->value.p[i] > 0x7e)
			return err_set(e, ERR_INVALID, "metadata %.100s: only printable ASCII",
				       key);
	if (h->value.n > 0)
		memcpy(value, h->value.p, h->value.n);
	value[h->value.n] = '\0';
	return 0;
}

/* Each pair is also packed, because the packed form has the bounds. */
static int read_meta(const struct http1_request *q, struct post_head *ret, struct err *e)
{
	uint8_t packed[FILE_META_PACKED_MAX]; /* the encoder knows the bounds */
	size_t len = 0, at = 0;

	for (size_t i = 0; i < q->headers_n; i++) {
		const struct http1_header *h = &q->headers[i];
		char key[FILE_META_KEY_MAX], value[FILE_META_VALUE_MAX];

		if (h->name.n < sizeof(prefix) - 1 ||
		    strncasecmp(h->name.p, prefix, sizeof(prefix) - 1) != 0)
			continue;
		if (copy_meta(h, key, value, e) < 0)
			return -1;
		if (!file_meta_add(packed, &len, key, value))
			return err_set(
				e, ERR_INVALID,
				"metadata '%.100s': without a name, given twice, or over 4096 "
				"bytes in all",
				key);
		at += (size_t)snprintf(ret->meta + at, sizeof(ret->meta) - at, "%s=%s\n", key,
				       value);
	}
	return 0;
}

/* A packed form is refused: its parts would have to be unpacked here. */
static int read_encoding(const struct http1_request *q, struct post_head *ret, struct err *e)
{
	struct http1_span value;

	if (http1_find(q->headers, q->headers_n, "content-encoding", &value) == 0 ||
	    http1_span_is_nocase(value, "identity"))
		return 0;
	if (!http1_span_is_nocase(value, "gzip"))
		return err_set(e, ERR_INVALID, "Content-Encoding: only gzip can be unpacked");
	if (ret->is_form)
		return err_set(e, ERR_INVALID,
			       "Content-Encoding gzip: only with application/octet-stream");
	ret->gzip = true;
	return 0;
}

static int read_type(const struct http1_request *q, struct post_head *ret, struct err *e)
{
	struct http1_span type;

	if (http1_find(q->headers, q->headers_n, "content-type", &ret->type) != 1)
		return err_set(e, ERR_INVALID, "Content-Type: must be given, once");
	type = http1_media_type(ret->type);
	ret->is_form = http1_span_is_nocase(type, "multipart/form-data");
	if (!ret->is_form && !http1_span_is_nocase(type, "application/octet-stream"))
		return err_set(e, ERR_INVALID,
			       "Content-Type: must be multipart/form-data or "
			       "application/octet-stream");
	return 0;
}

/* The type comes first, as the encoding depends on it. */
int post_head_read(const struct http1_request *q, struct post_head *ret, struct err *e)
{
	*ret = (struct post_head){ 0 };
	if (read_type(q, ret, e) < 0 || read_encoding(q, ret, e) < 0)
		return -1;
	return read_meta(q, ret, e);
}
