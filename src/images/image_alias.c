#include "image_alias.h"

#include <string.h>

static const char *skip(const char *text, const char *prefix)
{
	size_t n = strlen(prefix);

	return strncmp(text, prefix, n) == 0 ? text + n : text;
}

/* The length of the name: up to the tag or digest, but not to a port. */
static size_t name_length(const char *image)
{
	size_t n = strcspn(image, "@");

	for (size_t i = n; i > 0 && image[i - 1] != '/'; i--)
		if (image[i - 1] == ':')
			n = i - 1;
	return n;
}

bool image_alias_find(const char *list, const char *image, char ret[STORE_NAME_MAX])
{
	size_t n;

	image = skip(skip(image, "docker.io/"), "library/");
	n = name_length(image);
	while (*list != '\0') {
		size_t len = strcspn(list, ","), eq = strcspn(list, "=,");
		size_t value = len > eq ? len - eq - 1 : 0;

		if (eq == n && strncmp(list, image, n) == 0 && value > 0 &&
		    value < STORE_NAME_MAX) {
			memcpy(ret, list + eq + 1, value);
			ret[value] = '\0';
			return true;
		}
		list += len + (list[len] == ',');
	}
	return false;
}
