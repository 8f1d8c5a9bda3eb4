/* reply.c - theory of operation
 *
 * One table turns what the core says into a status and a word for programs. The status follows from
 * the error's code and, where one code has several meanings, from its errno. Words of errors are
 * ours or were made safe where they came in. How they are written is the dialect's. */
#include "reply.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "log.h"
#include "request.h"

#define ANY (-1)

struct meaning {
	enum err_code code;
	int sys;
	int status;
	const char *word;
	bool platform; /* whose fault */
};

static const struct meaning meanings[] = {
	{ ERR_INVALID, EUCLEAN, 500, "internal", true }, /* the database is damaged */
	{ ERR_INVALID, ANY, 400, "invalid", false },
	{ ERR_DENIED, ANY, 403, "forbidden", false },
	{ ERR_NOT_FOUND, ANY, 404, "not_found", false },
	{ ERR_CONFLICT, ESTALE, 410, "gone", false },
	{ ERR_CONFLICT, ANY, 409, "conflict", false },
	{ ERR_LIMIT, ENOSPC, 507, "storage_full", true },
	{ ERR_LIMIT, EFBIG, 413, "too_large", false },
	{ ERR_LIMIT, E2BIG, 413, "too_large", false },
	{ ERR_LIMIT, ANY, 429, "quota", false },
	{ ERR_UNSUPPORTED, ANY, 422, "unsupported", false },
	{ ERR_SYSTEM, ENOSPC, 507, "storage_full", true },
	{ ERR_SYSTEM, EAGAIN, 503, "unavailable", true },
	{ ERR_SYSTEM, EBUSY, 503, "unavailable", true },
	{ ERR_SYSTEM, ESHUTDOWN, 503, "unavailable", true },
	{ ERR_SYSTEM, ETIMEDOUT, 503, "unavailable", true },
	{ ERR_SYSTEM, EPIPE, 503, "unavailable", true }, /* who was to do it has just died */
};

/* The same for files: errno first, as the kernel said it inside the cell. */
static const struct meaning file_meanings[] = {
	{ ERR_SYSTEM, ENOENT, 404, "file_not_found", false },
	{ ERR_SYSTEM, EACCES, 403, "denied", false },
	{ ERR_SYSTEM, EPERM, 403, "denied", false },
	{ ERR_SYSTEM, EROFS, 403, "denied", false },
	{ ERR_SYSTEM, EEXIST, 409, "conflict", false },
	{ ERR_SYSTEM, ENOTDIR, 409, "conflict", false },
	{ ERR_SYSTEM, EISDIR, 409, "conflict", false },
	{ ERR_SYSTEM, ENOTEMPTY, 409, "conflict", false },
	{ ERR_SYSTEM, EBUSY, 409, "conflict", false },
	{ ERR_SYSTEM, ETXTBSY, 409, "conflict", false },
	{ ERR_SYSTEM, ELOOP, 409, "conflict", false },
	{ ERR_SYSTEM, EXDEV, 409, "conflict", false },
	{ ERR_SYSTEM, ENOSPC, 507, "disk_full", false },
	{ ERR_SYSTEM, EDQUOT, 507, "disk_full", false },
	{ ERR_SYSTEM, EFBIG, 413, "too_large", false },
	{ ERR_SYSTEM, ENAMETOOLONG, 400, "invalid", false },
	{ ERR_SYSTEM, EINVAL, 400, "invalid", false },
	{ ERR_SYSTEM, ESRCH, 404, "not_found", false },
	{ ERR_DENIED, ANY, 403, "denied", false },
	{ ERR_NOT_FOUND, ANY, 404, "file_not_found", false },
	{ ERR_LIMIT, ENOSPC, 507, "disk_full", false },
	{ ERR_LIMIT, ANY, 413, "too_large", false },
};

static const struct meaning internal = { ERR_SYSTEM, ANY, 500, "internal", true };

static const struct meaning *find(const struct meaning *table, size_t n, const struct err *e)
{
	for (size_t i = 0; i < n; i++)
		if (table[i].code == e->code && (table[i].sys == ANY || table[i].sys == e->sys))
			return &table[i];
	return NULL;
}

static const struct meaning *meaning_of(const struct err *e)
{
	const struct meaning *m = find(meanings, COUNT(meanings), e);

	return m == NULL ? &internal : m;
}

void reply_json(struct request *r, int status, struct json *j)
{
	if (json_ok(j))
		exchange_reply(r->x, status, "application/json", j->text, j->len);
	else
		reply_code(r, 500, "internal", "the answer is too large or memory is short");
	json_release(j);
}

void reply_empty(struct request *r, int status)
{
	exchange_reply(r->x, status, NULL, "", 0);
}

/* Clients can cause these at will: of each kind so many a second are written, and the next one says
 * how many were not. */
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

/* What may be tried again says when. */
static void send_error(struct request *r, const struct meaning *m, const char *message,
		       unsigned retry_s)
{
	const struct failure f = { m->status, m->word, message, m->platform };
	char seconds[16];

	if (m->status == 429 || m->status == 503) {
		(void)snprintf(seconds, sizeof(seconds), "%u", retry_s == 0 ? 1 : retry_s);
		exchange_header(r->x, "Retry-After", seconds);
	}
	if (m->status >= 500)
		log_failure(r, m->status, message);
	r->dialect->fail(r, &f);
}

void reply_code(struct request *r, int status, const char *code, const char *message)
{
	const struct meaning m = { .status = status, .word = code, .platform = status >= 500 };

	send_error(r, &m, message, 1);
}

/* The core begins the words of a refusal with the one for programs: "quota_rate: ...". */
static const char *refusal_word(const struct err *e, char *ret_word, size_t cap)
{
	size_t n = strspn(e->msg, "abcdefghijklmnopqrstuvwxyz_");

	if (e->code != ERR_LIMIT || e->msg[n] != ':' || n >= cap ||
	    (strncmp(e->msg, "quota_", 6) != 0 && strncmp(e->msg, "capacity_", 9) != 0 &&
	     strncmp(e->msg, "queue_", 6) != 0))
		return NULL;
	memcpy(ret_word, e->msg, n);
	ret_word[n] = '\0';
	return e->msg + n + 1 + strspn(e->msg + n + 1, " ");
}

void reply_refusal(struct request *r, const struct err *e, unsigned retry_s)
{
	struct meaning m = *meaning_of(e);
	char word[32];
	const char *words = refusal_word(e, word, sizeof(word));

	if (words != NULL) {
		m.word = word;
		m.platform = strncmp(word, "quota_", 6) != 0; /* a quota is the tenant's own */
	}
	send_error(r, &m, words == NULL ? e->msg : words, retry_s);
}

void reply_error(struct request *r, const struct err *e)
{
	reply_refusal(r, e, 1);
}

void reply_file_error(struct request *r, const struct err *e)
{
	const struct meaning *m = NULL;
	struct err by_errno = *e;

	by_errno.code = ERR_SYSTEM;
	if (e->sys != 0 && e->code != ERR_CONFLICT)
		m = find(file_meanings, COUNT(file_meanings), &by_errno);
	if (m == NULL)
		m = find(file_meanings, COUNT(file_meanings), e);
	if (m == NULL)
		m = meaning_of(e);
	send_error(r, m, e->msg, 1);
}

void reply_error_member(struct json *j, const struct err *e)
{
	if (e->code == ERR_NONE) {
		json_none(j, "error");
		return;
	}
	json_open(j, "error", '{');
	json_text(j, "code", err_code_name(e->code));
	json_text(j, "message", e->msg);
	json_text(j, "fault", meaning_of(e)->platform ? "platform" : "user");
	json_close(j, '}');
}

void reply_abort(struct request *r)
{
	exchange_abort(r->x);
}
