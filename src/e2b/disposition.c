#include "disposition.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "own.h"
#include "url.h"

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

bool disposition_is_active(const char *type)
{
	static const char *const active[] = { "text/html", "image/svg+xml", "text/xml" };

	for (size_t i = 0; i < COUNT(active); i++)
		if (strncmp(type, active[i], strlen(active[i])) == 0)
			return true;
	return false;
}

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
