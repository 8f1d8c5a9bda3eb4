#include "file_kind.h"

#include <string.h>

#include "own.h"
#include "utf8.h"

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
