#include "template_ref.h"

#include <ctype.h>
#include <string.h>

#define NAME_CHARS "abcdefghijklmnopqrstuvwxyz0123456789-_"

/* Trims, makes lower-case and checks one part. */
static bool take(const char *text, size_t n, const char *allowed, char ret[STORE_NAME_MAX])
{
	while (n > 0 && isspace((unsigned char)text[0])) {
		text++;
		n--;
	}
	while (n > 0 && isspace((unsigned char)text[n - 1]))
		n--;
	if (n == 0 || n >= STORE_NAME_MAX)
		return false;
	for (size_t i = 0; i < n; i++) {
		ret[i] = (char)tolower((unsigned char)text[i]);
		if (ret[i] == '\0' || strchr(allowed, ret[i]) == NULL)
			return false;
	}
	ret[n] = '\0';
	return true;
}

bool template_ref_is_uuid(const char *text)
{
	static const char shape[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";

	if (strlen(text) != sizeof(shape) - 1)
		return false;
	for (size_t i = 0; shape[i] != '\0'; i++)
		if (shape[i] == '-'
			    ? text[i] != '-'
			    : !isdigit((unsigned char)text[i]) && (text[i] < 'a' || text[i] > 'f'))
			return false;
	return true;
}

static int fail(struct err *e, const char *what, const char *text)
{
	(void)err_set(e, ERR_INVALID, "Invalid %s: %.100s", what, text);
	err_sanitize(e);
	return -1;
}

int template_ref_tag(const char *text, char ret[STORE_NAME_MAX], struct err *e)
{
	if (!take(text, strlen(text), NAME_CHARS ".", ret) || template_ref_is_uuid(ret))
		return fail(e, "tag", text);
	return 0;
}

int template_ref_read(const char *text, struct template_ref *ret, struct err *e)
{
	const char *slash = strchr(text, '/'), *name = slash == NULL ? text : slash + 1;
	size_t n = strcspn(name, ":");

	*ret = (struct template_ref){ 0 };
	if (slash != NULL && !take(text, (size_t)(slash - text), NAME_CHARS, ret->space))
		return fail(e, "name", text);
	if (!take(name, n, NAME_CHARS, ret->name))
		return fail(e, "name", text);
	return name[n] == '\0' ? 0 : template_ref_tag(name + n + 1, ret->tag, e);
}
