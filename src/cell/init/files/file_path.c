#include "cell/init/files/file_path.h"

#include <string.h>

/* Add the names of a path to ret, which begins with "/" at each name and is "" for the root. */
static bool file_path_add_names(const char *path, char *ret, size_t *len, size_t cap)
{
	while (*path != '\0') {
		size_t n = strcspn(path, "/");

		if (n == 2 && path[0] == '.' && path[1] == '.') {
			while (*len > 0 && ret[--*len] != '/')
				;
		} else if (n > 0 && !(n == 1 && path[0] == '.')) {
			if (*len + 1 + n >= cap)
				return false;
			ret[(*len)++] = '/';
			memcpy(ret + *len, path, n);
			*len += n;
		}
		path += n + (path[n] == '/');
	}
	return true;
}

bool file_path_join(const char *base, const char *path, char *ret, size_t cap)
{
	size_t len = 0;

	if (cap < 2 || (*path != '/' && !file_path_add_names(base, ret, &len, cap)) ||
	    !file_path_add_names(path, ret, &len, cap))
		return false;
	if (len == 0)
		ret[len++] = '/';
	ret[len] = '\0';
	return true;
}
