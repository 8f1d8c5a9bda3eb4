#include "lib/base/err_reason.h"

#include <assert.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/err.h"
#include "lib/base/utf8.h"

static const struct {
	const char *name;
	enum err_code code;
} reasons[] = {
	[REASON_NONE] = { "", ERR_NONE },
	[REASON_GONE] = { "gone", ERR_CONFLICT },
	[REASON_LOST] = { "lost", ERR_CONFLICT },
	[REASON_UNAUTHORIZED] = { "unauthorized", ERR_DENIED },
	[REASON_UNAVAILABLE] = { "unavailable", ERR_SYSTEM },
	[REASON_TIMEOUT] = { "timeout", ERR_SYSTEM },
	[REASON_PEER_DIED] = { "peer_died", ERR_SYSTEM },
	[REASON_STORAGE_FULL] = { "storage_full", ERR_LIMIT },
	[REASON_TOO_LARGE] = { "too_large", ERR_LIMIT },
	[REASON_DAMAGED] = { "damaged", ERR_INVALID },
	[REASON_SECRETS_IN_MEMORY] = { "secrets_in_memory", ERR_CONFLICT },
	[REASON_QUOTA_SESSIONS] = { "quota_sessions", ERR_LIMIT },
	[REASON_QUOTA_RATE] = { "quota_rate", ERR_LIMIT },
	[REASON_QUOTA_MEMORY] = { "quota_memory", ERR_LIMIT },
	[REASON_QUOTA_STORAGE] = { "quota_storage", ERR_LIMIT },
	[REASON_QUOTA_PIDS] = { "quota_pids", ERR_LIMIT },
	[REASON_QUOTA_RECORDS] = { "quota_records", ERR_LIMIT },
	[REASON_QUOTA_QUEUE] = { "quota_queue", ERR_LIMIT },
	[REASON_QUOTA_EXECUTIONS] = { "quota_executions", ERR_LIMIT },
	[REASON_QUOTA_CONNECTIONS] = { "quota_connections", ERR_LIMIT },
	[REASON_QUOTA_KEYS] = { "quota_keys", ERR_LIMIT },
	[REASON_QUOTA_SECRETS] = { "quota_secrets", ERR_LIMIT },
	[REASON_QUOTA_SECRET_BYTES] = { "quota_secret_bytes", ERR_LIMIT },
	[REASON_QUOTA_POLICIES] = { "quota_policies", ERR_LIMIT },
	[REASON_QUOTA_DIFFS] = { "quota_diffs", ERR_LIMIT },
	[REASON_QUOTA_TEMPLATES] = { "quota_templates", ERR_LIMIT },
	[REASON_QUOTA_BUILDS] = { "quota_builds", ERR_LIMIT },
	[REASON_QUOTA_VOLUMES] = { "quota_volumes", ERR_LIMIT },
	[REASON_QUOTA_STREAMS] = { "quota_streams", ERR_LIMIT },
	[REASON_QUOTA_STORED] = { "quota_stored", ERR_LIMIT },
	[REASON_CAPACITY_SESSIONS] = { "capacity_sessions", ERR_LIMIT },
	[REASON_CAPACITY_MEMORY] = { "capacity_memory", ERR_LIMIT },
	[REASON_CAPACITY_RATE] = { "capacity_rate", ERR_LIMIT },
	[REASON_CAPACITY_INPUT] = { "capacity_input", ERR_LIMIT },
	[REASON_CAPACITY_DIFFS] = { "capacity_diffs", ERR_LIMIT },
	[REASON_QUEUE_TIMEOUT] = { "queue_timeout", ERR_LIMIT },
	[REASON_SECRETS_IN_FILES] = { "secrets_in_files", ERR_CONFLICT },
	[REASON_NOT_FROZEN] = { "not_frozen", ERR_CONFLICT },
};
static_assert(COUNT(reasons) == REASONS, "a row for every reason");

const char *err_reason_name(enum err_reason reason)
{
	return (unsigned)reason < REASONS ? reasons[reason].name : "unknown";
}

enum err_code err_reason_code(enum err_reason reason)
{
	return (unsigned)reason < REASONS ? reasons[reason].code : ERR_SYSTEM;
}

int err_set_reason(struct err *e, enum err_reason reason, const char *fmt, ...)
{
	va_list ap;

	e->code = err_reason_code(reason);
	e->reason = reason;
	e->sys = 0;
	va_start(ap, fmt);
	(void)vsnprintf(e->msg, sizeof(e->msg), fmt, ap);
	va_end(ap);
	return -1;
}

/* ---- the words of error codes, for programs */

static const char *const names[] = {
	[ERR_NONE] = "none",	       [ERR_INVALID] = "invalid",	  [ERR_DENIED] = "denied",
	[ERR_NOT_FOUND] = "not_found", [ERR_CONFLICT] = "conflict",	  [ERR_LIMIT] = "limit",
	[ERR_SYSTEM] = "system",       [ERR_UNSUPPORTED] = "unsupported",
};
static_assert(sizeof(names) / sizeof(names[0]) == ERR_CODES, "a name for every code");

const char *err_code_name(enum err_code code)
{
	return (unsigned)code < ERR_CODES ? names[code] : "unknown";
}

/* ---- errors of another process become printable */

void err_sanitize(struct err *e)
{
	size_t left;

	if ((unsigned)e->code >= ERR_CODES || e->code == ERR_NONE)
		e->code = ERR_SYSTEM;
	if ((unsigned)e->reason >= REASONS)
		e->reason = REASON_NONE;
	e->msg[sizeof(e->msg) - 1] = '\0';
	left = strlen(e->msg);
	for (char *c = e->msg; left > 0;) {
		size_t n = utf8_length((const uint8_t *)c, left);

		if (n == 0 || utf8_is_control((const uint8_t *)c, n)) {
			n = n == 0 ? 1 : n;
			memset(c, '?', n);
		}
		c += n;
		left -= n;
	}
}
