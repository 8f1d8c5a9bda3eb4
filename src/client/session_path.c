#include "session_path.h"

#include <string.h>

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
