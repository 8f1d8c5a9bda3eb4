#include "lib/policy/fold.h"

#include <string.h>

static char fold_lower(char c)
{
	return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

void fold_parameter(char *name)
{
	size_t skip = strspn(name, " \t"), n = strcspn(name + skip, "[");

	memmove(name, name + skip, n);
	while (n > 0 && (name[n - 1] == ' ' || name[n - 1] == '\t'))
		n--;
	name[n] = '\0';
	for (; *name != '\0'; name++)
		*name = (char)(*name == '.' || *name == ' ' ? '_' : fold_lower(*name));
}

bool fold_same_header(struct http1_span name, const char *wanted)
{
	if (name.n != strlen(wanted))
		return false;
	for (size_t i = 0; i < name.n; i++) {
		char a = fold_lower(name.p[i]), b = fold_lower(wanted[i]);

		if ((a == '_' ? '-' : a) != (b == '_' ? '-' : b))
			return false;
	}
	return true;
}

bool fold_is_list(struct http1_span name)
{
	static const char *const single[] = {
		"authorization",
		"content-disposition",
		"content-length",
		"content-type",
		"cookie",
		"date",
		"from",
		"host",
		"if-range",
		"if-modified-since",
		"if-unmodified-since",
		"origin",
		"referer",
		"user-agent",
	};

	for (size_t i = 0; i < COUNT(single); i++)
		if (http1_span_is_nocase(name, single[i]))
			return false;
	return true;
}

/* The byte of an escape at p that lenient servers decode before they split the path. 0: none. */
static char fold_undone(const char *p)
{
	if (strncmp(p, "%2F", 3) == 0)
		return '/';
	if (strncmp(p, "%2B", 3) == 0)
		return '+';
	return strncmp(p, "%3B", 3) == 0 ? ';' : '\0';
}

/* The length without dots and spaces at the end of the last segment. */
static size_t fold_trim(const char *text, size_t n)
{
	for (;;) {
		if (n > 0 && (text[n - 1] == '.' || text[n - 1] == '+'))
			n--;
		else if (n > 2 && memcmp(text + n - 3, "%20", 3) == 0)
			n -= 3;
		else
			return n;
	}
}

size_t fold_path(const char *path, char *ret)
{
	bool parameters = false;
	size_t n = 0;

	while (*path != '\0') {
		char c = fold_undone(path);

		path += c != '\0' ? 3 : 1;
		if (c == '\0')
			c = path[-1];
		if (c == '/') {
			parameters = false;
			n = fold_trim(ret, n);
		}
		parameters |= c == ';';
		if (!parameters && (c != '/' || n == 0 || ret[n - 1] != '/'))
			ret[n++] = fold_lower(c);
	}
	n = fold_trim(ret, n);
	ret[n] = '\0';
	return n;
}

void fold_pattern(const char *pattern, char *ret)
{
	do
		*ret++ = fold_lower(*pattern);
	while (*pattern++ != '\0');
}
