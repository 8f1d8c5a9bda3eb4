#include "daemon/template/template_name.h"

#include <string.h>

#define WORDS "abcdefghijklmnopqrstuvwxyz0123456789-_."
#define UUID_LEN 36

/* A UUID as a tag would look like the id of a build. */
static bool is_uuid(const char *text)
{
	if (strlen(text) != UUID_LEN)
		return false;
	for (size_t i = 0; i < UUID_LEN; i++) {
		bool dash = i == 8 || i == 13 || i == 18 || i == 23;

		if (dash ? text[i] != '-' : strchr("0123456789abcdef", text[i]) == NULL)
			return false;
	}
	return true;
}

bool template_name_is_tag(const char *tag)
{
	size_t n = strspn(tag, WORDS);

	return n > 0 && n < STORE_TAG_MAX && tag[n] == '\0' && !is_uuid(tag);
}

/* Copy a part in lower case without blanks around it. false: it does not fit, is empty or has
 * other characters. */
static bool template_name_take(const char *p, size_t n, char *ret, size_t cap)
{
	while (n > 0 && (*p == ' ' || *p == '\t')) {
		p++;
		n--;
	}
	while (n > 0 && (p[n - 1] == ' ' || p[n - 1] == '\t'))
		n--;
	if (n == 0 || n >= cap)
		return false;
	for (size_t i = 0; i < n; i++)
		ret[i] = (char)(p[i] >= 'A' && p[i] <= 'Z' ? p[i] + ('a' - 'A') : p[i]);
	ret[n] = '\0';
	return strspn(ret, WORDS) == n;
}

/* "SPACE/NAME:TAG", where space and tag may be missing. The tag "default" is left empty. */
int template_name_read(const char *text, struct template_name *ret, struct err *e)
{
	const char *slash = strchr(text, '/');
	const char *name = slash == NULL ? text : slash + 1;
	const char *colon = strchr(name, ':');
	size_t n = colon == NULL ? strlen(name) : (size_t)(colon - name);

	memset(ret, 0, sizeof(*ret));
	if ((slash != NULL &&
	     !template_name_take(text, (size_t)(slash - text), ret->space, sizeof(ret->space))) ||
	    !template_name_take(name, n, ret->name, sizeof(ret->name)) || ret->name[0] == '.')
		return err_set(e, ERR_INVALID,
			       "Invalid name: %.60s: must be of a-z, 0-9, '-', '_' and '.'", text);
	if (colon != NULL &&
	    (!template_name_take(colon + 1, strlen(colon + 1), ret->tag, sizeof(ret->tag)) ||
	     !template_name_is_tag(ret->tag)))
		return err_set(e, ERR_INVALID,
			       "Invalid tag: %.60s: must be of a-z, 0-9, '-', '_' and '.'", text);
	if (strcmp(ret->tag, "default") == 0)
		memset(ret->tag, 0, sizeof(ret->tag));
	return 0;
}
