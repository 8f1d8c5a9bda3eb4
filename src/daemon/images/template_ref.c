#include "daemon/images/template_ref.h"

#include <ctype.h>
#include <string.h>

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

static int template_ref_fail(struct err *e, const char *what, const char *text)
{
	(void)err_set(e, ERR_INVALID, "Invalid %s: %.100s", what, text);
	err_sanitize(e);
	return -1;
}

/* White space around the tag and the case of its letters do not count. */
int template_ref_tag(const char *text, char ret[STORE_NAME_MAX], struct err *e)
{
	size_t n;

	while (isspace((unsigned char)*text))
		text++;
	for (n = strlen(text); n > 0 && isspace((unsigned char)text[n - 1]);)
		n--;
	if (n == 0 || n >= STORE_NAME_MAX)
		return template_ref_fail(e, "tag", text);
	for (size_t i = 0; i < n; i++)
		ret[i] = (char)tolower((unsigned char)text[i]);
	ret[n] = '\0';
	return template_name_is_tag(ret) ? 0 : template_ref_fail(e, "tag", text);
}

int template_ref_read(const char *text, struct template_name *ret, struct err *e)
{
	const char *colon = strrchr(text, ':');

	if (template_name_read(text, ret, e) < 0) {
		err_sanitize(e);
		return -1;
	}
	/* The tag "default" counts as none there. Here an empty tag is a mistake. */
	if ((colon != NULL && colon[1] == '\0') || strlen(ret->tag) >= STORE_NAME_MAX)
		return template_ref_fail(e, "tag", text);
	return strchr(ret->name, '.') != NULL || strchr(ret->space, '.') != NULL
		       ? template_ref_fail(e, "name", text)
		       : 0;
}
