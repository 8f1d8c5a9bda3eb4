#include "err.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const names[] = {
	[ERR_NONE] = "none",	       [ERR_INVALID] = "invalid",	  [ERR_DENIED] = "denied",
	[ERR_NOT_FOUND] = "not_found", [ERR_CONFLICT] = "conflict",	  [ERR_LIMIT] = "limit",
	[ERR_SYSTEM] = "system",       [ERR_UNSUPPORTED] = "unsupported",
};
static_assert(sizeof(names) / sizeof(names[0]) == ERR_CODES, "a name for every code");

int err_set(struct err *e, enum err_code code, const char *fmt, ...)
{
	va_list ap;

	e->code = code;
	e->sys = 0;
	va_start(ap, fmt);
	(void)vsnprintf(e->msg, sizeof(e->msg), fmt, ap);
	va_end(ap);
	return -1;
}

int err_sys(struct err *e, const char *fmt, ...)
{
	int saved = errno;
	va_list ap;
	int n;

	e->code = ERR_SYSTEM;
	e->sys = saved;
	va_start(ap, fmt);
	n = vsnprintf(e->msg, sizeof(e->msg), fmt, ap);
	va_end(ap);
	if (n >= 0 && (size_t)n < sizeof(e->msg))
		(void)snprintf(e->msg + n, sizeof(e->msg) - (size_t)n, ": %s", strerror(saved));
	errno = saved;
	return -1;
}

int err_wrap(struct err *e, const char *fmt, ...)
{
	char context[sizeof(e->msg)];
	char whole[2 * sizeof(e->msg) + 3];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(context, sizeof(context), fmt, ap);
	va_end(ap);
	(void)snprintf(whole, sizeof(whole), "%s: %s", context, e->msg);
	whole[sizeof(e->msg) - 1] = '\0';
	memcpy(e->msg, whole, sizeof(e->msg));
	return -1;
}

const char *err_code_name(enum err_code code)
{
	return (unsigned)code < ERR_CODES ? names[code] : "unknown";
}

void err_sanitize(struct err *e)
{
	if ((unsigned)e->code >= ERR_CODES || e->code == ERR_NONE)
		e->code = ERR_SYSTEM;
	e->msg[sizeof(e->msg) - 1] = '\0';
	for (char *c = e->msg; *c != '\0'; c++) {
		unsigned char now = (unsigned char)*c,
			      before = c == e->msg ? 0 : (unsigned char)c[-1];

		/* 80 to 9F: controls, unless they continue a character of several bytes; after C2
		 * they are the same controls in UTF-8. */
		if (now < 0x20 || (now >= 0x7f && now <= 0x9f && (before < 0x80 || before == 0xc2)))
			*c = '?';
	}
}
