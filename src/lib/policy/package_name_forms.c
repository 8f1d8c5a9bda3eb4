#include "lib/policy/package_name_forms.h"

#include <stdio.h>
#include <string.h>

/* Maven's group ids have dots, names of Go, git and images have slashes. */
const char *package_form_behind(enum ecosystem eco, const char *name)
{
	const char *colon = strchr(name, ':'), *at = NULL;

	if (eco == ECO_MAVEN && colon != NULL)
		at = memchr(name, '.', (size_t)(colon - name));
	else if (eco == ECO_GO || eco == ECO_GIT || eco == ECO_OCI)
		at = strchr(name, '/');
	return at == NULL ? NULL : at + 1;
}

/* Undo Go's escapes: "/github.com/!ab" of the path is "github.com/Ab" of a module. */
static size_t name_forms_unescape(enum ecosystem eco, const char *p, size_t n, char *ret,
				  size_t cap)
{
	size_t len = 0;

	for (size_t i = 0; i < n; i++) {
		bool capital = eco == ECO_GO && p[i] == '!' && i + 1 < n;

		if (len + 1 >= cap)
			return 0;
		i += capital;
		ret[len++] = p[i];
		if (capital && p[i] >= 'a' && p[i] <= 'z')
			ret[len - 1] = (char)(p[i] - 'a' + 'A');
	}
	return len;
}

/* A path too long for a name gives "": such a name is on no list. */
const char *package_form_in_front(const struct package_question *q, const struct package_request *r,
				  unsigned skip, char ret[PACKAGE_NAME_MAX])
{
	const char *p = q->path, *end = p == NULL ? NULL : p + q->prefix;
	char text[2 * PACKAGE_NAME_MAX];
	size_t n;

	if ((r->ecosystem != ECO_GO && r->ecosystem != ECO_GIT) || r->name[0] == '\0')
		return NULL;
	for (unsigned i = 0; p != NULL && p < end && i < skip; i++)
		p = memchr(p + 1, '/', (size_t)(end - p - 1));
	if (p == NULL || p >= end)
		return NULL;
	n = name_forms_unescape(r->ecosystem, p + 1, (size_t)(end - p - 1), text, sizeof(text));
	if (n == 0 || n + 2 + strlen(r->name) > sizeof(text))
		return "";
	(void)snprintf(text + n, sizeof(text) - n, "/%s", r->name);
	return package_name_normal(r->ecosystem, text, strlen(text), ret) ? ret : "";
}
