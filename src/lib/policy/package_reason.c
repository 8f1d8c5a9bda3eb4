/* package_reason.c - see package_reason.h. The reason is the only text that nearly every client of
 * every ecosystem shows to its user, because it is sent as the reason phrase of a status line. So
 * it is short, printable ASCII, and begins with the name of the package. */
#include "lib/policy/package_reason.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Longer names and versions are cut, so that the reason keeps room for the cause. */
#define NAME_SHOWN 48
#define VERSION_SHOWN 24

const char *package_reason_who(enum policy_layer layer)
{
	static const char *const who[POLICY_LAYERS] = { "this node", "this tenant",
							"this session" };

	return who[layer];
}

void package_reason_age(uint64_t ms, char ret[PACKAGE_AGE_TEXT_MAX])
{
	uint64_t minutes = ms / 60000, hours = minutes / 60, days = hours / 24;

	if (minutes < 1)
		(void)snprintf(ret, PACKAGE_AGE_TEXT_MAX, "%llu s",
			       (unsigned long long)(ms / 1000));
	else if (hours < 2)
		(void)snprintf(ret, PACKAGE_AGE_TEXT_MAX, "%llu min", (unsigned long long)minutes);
	else if (days < 2)
		(void)snprintf(ret, PACKAGE_AGE_TEXT_MAX, "%llu h", (unsigned long long)hours);
	else
		(void)snprintf(ret, PACKAGE_AGE_TEXT_MAX, "%llu days", (unsigned long long)days);
}

static const char *package_reason_dots(const char *text, size_t shown)
{
	return strlen(text) > shown ? "..." : "";
}

/* Write "left-pad 1.3.0", or the kind of request if it names no package. */
static void write_package(const struct package_request *r, char *ret, size_t cap)
{
	const char *name = r->written[0] != '\0' ? r->written
			   : r->name[0] != '\0'	 ? r->name
						 : r->file;
	bool versioned = r->version[0] != '\0' && r->kind != PACKAGE_META;

	if (name[0] == '\0') {
		(void)snprintf(ret, cap, "this %s request", ecosystem_name(r->ecosystem));
		return;
	}
	(void)snprintf(ret, cap, "%.*s%s%s%.*s%s", NAME_SHOWN, name,
		       package_reason_dots(name, NAME_SHOWN), versioned ? " " : "", VERSION_SHOWN,
		       versioned ? r->version : "",
		       versioned ? package_reason_dots(r->version, VERSION_SHOWN) : "");
}

/* Names come from cells. A control byte must not reach a status line. */
static void make_printable(char *text)
{
	for (; *text != '\0'; text++)
		if (*text < ' ' || *text > '~')
			*text = '?';
}

void package_reason_set(struct package_answer *ret, const struct package_question *q,
			enum policy_layer layer, const char *rule, const char *cause, ...)
{
	char text[512], tail[PACKAGE_RULE_MAX + 16];
	size_t len, ntail, room = sizeof(ret->reason) - 1;
	va_list ap;

	write_package(q->request, text, 100);
	len = strlen(text);
	text[len++] = ' ';
	va_start(ap, cause);
	(void)vsnprintf(text + len, sizeof(text) - len, cause, ap);
	va_end(ap);
	ret->verdict = PACKAGE_REFUSE;
	(void)snprintf(ret->rule, sizeof(ret->rule), "%s packages.%.40s", policy_layer_names[layer],
		       rule);
	(void)snprintf(tail, sizeof(tail), " (packages.%.40s)", rule);
	/* A long text is cut, but the rule is always named. */
	ntail = strlen(tail);
	len = strlen(text) < room - ntail ? strlen(text) : room - ntail;
	memcpy(ret->reason, text, len);
	memcpy(ret->reason + len, tail, ntail + 1);
	make_printable(ret->reason);
}
