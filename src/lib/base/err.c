#include "lib/base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int(err_set)(struct err *e, enum err_code code, const char *fmt, ...)
{
	va_list ap;

	e->code = code;
	e->reason = REASON_NONE;
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
	e->reason = REASON_NONE;
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
	char context[sizeof(e->msg) - 2];
	size_t at, n = strlen(e->msg);
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(context, sizeof(context), fmt, ap);
	va_end(ap);
	at = strlen(context) + 2;
	if (n > sizeof(e->msg) - 1 - at)
		n = sizeof(e->msg) - 1 - at;
	memmove(e->msg + at, e->msg, n);
	memcpy(e->msg, context, at - 2);
	memcpy(e->msg + at - 2, ": ", 2);
	e->msg[at + n] = '\0';
	return -1;
}
