/* reply.c - theory of operation
 *
 * The status and the word for programs of a failed request follow from the error's reason, without
 * one from its code, and for a failed system call from its errno. The message is only shown. It is
 * the server's own, or was made safe where it came in. How the three are written is the dialect's.
 */
#include "front/web/reply.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "front/web/request.h"
#include "lib/base/err_missing.h"
#include "lib/base/log.h"
#include "lib/http/url.h"

#define LOCATION_MAX 1024 /* an id has 256 bytes at most, which may have three characters each */

/* The answer to a kind of failure. */
struct reply_meaning {
	int status;
	const char *word; /* NULL: the name of the reason */
	bool platform;	  /* the server's fault, not the user's */
};

/* The tenant's own bound: asking again later may work. */
#define QUOTA                    \
	{                        \
		429, NULL, false \
	}
/* The node's bound: 429 as well, but the server's fault. */
#define CAPACITY                \
	{                       \
		429, NULL, true \
	}
#define UNAVAILABLE                      \
	{                                \
		503, "unavailable", true \
	}
#define INTERNAL                      \
	{                             \
		500, "internal", true \
	}

/* A row for each reason. It wins over code and errno. */
static const struct reply_meaning by_reason[REASONS] = {
	[REASON_GONE] = { 410, NULL, false },
	[REASON_LOST] = { 410, "gone", true },
	[REASON_UNAUTHORIZED] = { 401, NULL, false },
	[REASON_UNAVAILABLE] = UNAVAILABLE,
	[REASON_TIMEOUT] = UNAVAILABLE,
	[REASON_PEER_DIED] = UNAVAILABLE,
	[REASON_STORAGE_FULL] = { 507, NULL, true },
	[REASON_TOO_LARGE] = { 413, NULL, false },
	[REASON_DAMAGED] = INTERNAL,
	[REASON_SECRETS_IN_MEMORY] = { 409, NULL, false },
	[REASON_SECRETS_IN_FILES] = { 409, NULL, false },
	[REASON_NOT_FROZEN] = { 409, NULL, false },
	[REASON_QUOTA_SESSIONS] = QUOTA,
	[REASON_QUOTA_RATE] = QUOTA,
	[REASON_QUOTA_MEMORY] = QUOTA,
	[REASON_QUOTA_STORAGE] = QUOTA,
	[REASON_QUOTA_PIDS] = QUOTA,
	[REASON_QUOTA_RECORDS] = QUOTA,
	[REASON_QUOTA_QUEUE] = QUOTA,
	[REASON_QUOTA_EXECUTIONS] = QUOTA,
	[REASON_QUOTA_CONNECTIONS] = QUOTA,
	[REASON_QUOTA_KEYS] = QUOTA,
	[REASON_QUOTA_SECRETS] = QUOTA,
	[REASON_QUOTA_SECRET_BYTES] = QUOTA,
	[REASON_QUOTA_POLICIES] = QUOTA,
	[REASON_QUOTA_DIFFS] = QUOTA,
	[REASON_QUOTA_TEMPLATES] = QUOTA,
	[REASON_QUOTA_BUILDS] = QUOTA,
	[REASON_QUOTA_VOLUMES] = QUOTA,
	[REASON_QUOTA_STREAMS] = QUOTA,
	[REASON_QUOTA_STORED] = QUOTA,
	[REASON_CAPACITY_SESSIONS] = CAPACITY,
	[REASON_CAPACITY_MEMORY] = CAPACITY,
	[REASON_CAPACITY_RATE] = CAPACITY,
	[REASON_CAPACITY_INPUT] = CAPACITY,
	[REASON_CAPACITY_DIFFS] = CAPACITY,
	[REASON_QUEUE_TIMEOUT] = CAPACITY,
};

/* For failures without a reason. */
static const struct reply_meaning by_code[ERR_CODES] = {
	[ERR_NONE] = INTERNAL,
	[ERR_INVALID] = { 400, "invalid", false },
	[ERR_DENIED] = { 403, "forbidden", false },
	[ERR_NOT_FOUND] = { 404, "not_found", false },
	[ERR_CONFLICT] = { 409, "conflict", false },
	[ERR_LIMIT] = { 429, "quota", false },
	[ERR_UNSUPPORTED] = { 422, "unsupported", false },
	[ERR_SYSTEM] = INTERNAL,
};

struct errno_meaning {
	int sys;
	struct reply_meaning meaning;
};

/* Of system calls of the server. */
static const struct errno_meaning by_errno[] = {
	{ ENOSPC, { 507, "storage_full", true } },
	{ EAGAIN, UNAVAILABLE },
	{ EBUSY, UNAVAILABLE },
	{ ETIMEDOUT, UNAVAILABLE },
	{ EPIPE, UNAVAILABLE },
};

/* Of system calls on files inside the cell. */
static const struct errno_meaning file_by_errno[] = {
	{ ENOENT, { 404, "file_not_found", false } }, { EACCES, { 403, "denied", false } },
	{ EPERM, { 403, "denied", false } },	      { EROFS, { 403, "denied", false } },
	{ EEXIST, { 409, "conflict", false } },	      { ENOTDIR, { 409, "conflict", false } },
	{ EISDIR, { 409, "conflict", false } },	      { ENOTEMPTY, { 409, "conflict", false } },
	{ EBUSY, { 409, "conflict", false } },	      { ETXTBSY, { 409, "conflict", false } },
	{ ELOOP, { 409, "conflict", false } },	      { EXDEV, { 409, "conflict", false } },
	{ ENOSPC, { 507, "disk_full", false } },      { EDQUOT, { 507, "disk_full", false } },
	{ EFBIG, { 413, "too_large", false } },	      { ENAMETOOLONG, { 400, "invalid", false } },
	{ EINVAL, { 400, "invalid", false } },	      { ESRCH, { 404, "not_found", false } },
};

/* Codes that read differently where the object is a file. by_code has the rest. */
static const struct reply_meaning file_by_code[ERR_CODES] = {
	[ERR_DENIED] = { 403, "denied", false },
	[ERR_NOT_FOUND] = { 404, "file_not_found", false },
	[ERR_LIMIT] = { 413, "too_large", false },
};

/* NULL: no row has it. */
static const struct reply_meaning *find_errno(const struct errno_meaning *table, size_t n, int sys)
{
	for (size_t i = 0; i < n; i++)
		if (table[i].sys == sys)
			return &table[i].meaning;
	return NULL;
}

static struct reply_meaning meaning_of(const struct err *e)
{
	const struct reply_meaning *found = NULL;
	struct reply_meaning m;

	if (e->reason != REASON_NONE) {
		m = by_reason[e->reason];
		m.word = m.word == NULL ? err_reason_name(e->reason) : m.word;
		return m;
	}
	if (e->code == ERR_SYSTEM)
		found = find_errno(by_errno, COUNT(by_errno), e->sys);
	return found != NULL ? *found : by_code[e->code];
}

/* A conflict is the server's own, whatever errno is left in it. */
static struct reply_meaning file_meaning_of(const struct err *e)
{
	const struct reply_meaning *found = NULL;

	if (e->reason != REASON_NONE)
		return meaning_of(e);
	if (e->code != ERR_CONFLICT)
		found = find_errno(file_by_errno, COUNT(file_by_errno), e->sys);
	if (found != NULL)
		return *found;
	return file_by_code[e->code].status != 0 ? file_by_code[e->code] : meaning_of(e);
}

/* Only growth is counted: a smaller size changes nothing. */
int reply_count(struct request *r, size_t size, struct err *e)
{
	if (size <= r->collected)
		return 0;
	if (exchange_reserve(r->x, size - r->collected)) {
		r->collected = size;
		return 0;
	}
	reply_uncount(r);
	return err_set_reason(e, REASON_CAPACITY_INPUT,
			      "the answer has no room in memory beside the bodies and answers of "
			      "this tenant's other requests (tenant_bodies_max): ask for fewer "
			      "long ones at a time");
}

void reply_uncount(struct request *r)
{
	exchange_unreserve(r->x, r->collected);
	r->collected = 0;
}

/* The exchange counts the answer from here on. */
void reply_json(struct request *r, int status, struct json *j)
{
	reply_uncount(r);
	if (json_ok(j))
		exchange_reply(r->x, status, "application/json", j->text, j->len);
	else
		reply_code(r, 500, "internal", "the answer is too large, or out of memory");
	json_release(j);
}

void reply_empty(struct request *r, int status)
{
	exchange_reply(r->x, status, NULL, "", 0);
}

/* Clients can cause these at will: the log lines of each kind are limited per second, and the next
 * line has the number of those left out. */
static void log_failure(const struct request *r, int status, const char *message)
{
	static struct log_limit limits[] = {
		{ .burst = 20, .interval_ms = 1000 }, /* 500 */
		{ .burst = 20, .interval_ms = 1000 }, /* 503 */
		{ .burst = 20, .interval_ms = 1000 }, /* the rest */
	};
	unsigned long long dropped;

	if (log_limit(&limits[status == 500 ? 0 : status == 503 ? 1 : 2], &dropped))
		log_error("request failed",
			  "request_id=%s session_id=%s status=%d error=%s left_out=%llu",
			  exchange_id(r->x), r->session_id, status, message, dropped);
}

/* 501 is not: the client asks for a function that this server, or the level of a session, lacks.
 * Such failures are logged. */
static bool is_servers(int status)
{
	return status >= 500 && status != 501;
}

/* 429 and 503 carry a Retry-After header, unless the dialect has begun a stream, in which it writes
 * the failure. */
static void send_error(struct request *r, const struct reply_meaning *m, const char *message,
		       unsigned retry_s)
{
	const struct failure f = { m->status, m->word, message, m->platform };
	char seconds[16];

	if ((m->status == 429 || m->status == 503) && !exchange_has_begun(r->x)) {
		(void)snprintf(seconds, sizeof(seconds), "%u", retry_s == 0 ? 1 : retry_s);
		exchange_header(r->x, "Retry-After", seconds);
	}
	if (is_servers(m->status))
		log_failure(r, m->status, message);
	r->dialect->fail(r, &f);
}

void reply_code(struct request *r, int status, const char *code, const char *message)
{
	const struct reply_meaning m = { .status = status,
					 .word = code,
					 .platform = is_servers(status) };

	send_error(r, &m, message, 1);
}

/* A path that does not fit is left out: the answer is complete without it. */
void reply_location(struct request *r, const char *prefix, const char *id)
{
	char path[LOCATION_MAX];
	size_t n = (size_t)snprintf(path, sizeof(path), "%s", prefix);

	if (n < sizeof(path) && url_encode(id, strlen(id), path + n, sizeof(path) - n) >= 0)
		exchange_header(r->x, "Location", path);
}

void reply_missing(struct request *r, const char *kind, const char *name)
{
	struct err e;

	IGNORED(err_missing(&e, kind, name), "answered");
	err_sanitize(&e);
	reply_error(r, &e);
}

void reply_refusal(struct request *r, const struct err *e, unsigned retry_s)
{
	const struct reply_meaning m = meaning_of(e);

	send_error(r, &m, e->msg, retry_s);
}

void reply_error(struct request *r, const struct err *e)
{
	reply_refusal(r, e, 1);
}

void reply_file_error(struct request *r, const struct err *e)
{
	const struct reply_meaning m = file_meaning_of(e);

	send_error(r, &m, e->msg, 1);
}

int reply_status_of(const struct err *e)
{
	return meaning_of(e).status;
}

/* null without a failure. */
void reply_error_member(struct json *j, const struct err *e)
{
	if (e->code == ERR_NONE) {
		json_none(j, "error");
		return;
	}
	json_open(j, "error", '{');
	json_text(j, "code", err_code_name(e->code));
	json_text(j, "message", e->msg);
	json_text(j, "fault", meaning_of(e).platform ? "platform" : "user");
	json_close(j, '}');
}
