/* audit_admin.c - see audit_admin.h. */
#include "cmd/client/audit_admin.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd/client/api_call.h"
#include "cmd/client/follow.h"
#include "cmd/client/member.h"
#include "cmd/client/show.h"
#include "cmd/client/show_json.h"
#include "lib/base/io.h"
#include "lib/base/own.h"
#include "lib/base/units.h"

#define SEQ_TOP ((uint64_t)1 << 40) /* no log has more records */

/* The members that most routes of the log share. NULL adds nothing. */
static void admin_target(struct target *t, const char *path, const struct audit_admin *f)
{
	target_init(t, path);
	target_query(t, "tenant", f->tenant);
	target_query(t, "epoch", f->epoch);
}

/* ---- ls: number, time, type, who, session, and the facts */

static void print_record(const void *arg, const json_t *item)
{
	const struct args_common *o = arg;
	const json_t *r = json_object_get(item, "record"), *actor = json_object_get(r, "actor");
	char facts[4096];

	if (o->json) {
		show_json(item, false, stdout);
		return;
	}
	(void)printf("%" JSON_INTEGER_FORMAT " ", json_integer_value(json_object_get(item, "seq")));
	show_text(member_text(r, "time", "-"), stdout);
	(void)putchar(' ');
	show_text(member_text(r, "type", "?"), stdout);
	(void)putchar(' ');
	show_text(member_text(actor, "interface", "?"), stdout);
	(void)putchar(':');
	show_text(member_text(actor, "key", "-"), stdout);
	(void)putchar(' ');
	show_text(member_text(r, "session", "-"), stdout);
	show_json_pairs(json_object_get(r, "data"), facts, sizeof(facts));
	(void)putchar(' ');
	show_text(facts, stdout);
	(void)putchar('\n');
}

/* With follow the records come as a stream without end, so the answer may take any time, but the
 * server keeps it alive. */
int audit_admin_ls(const struct verb *v, const struct args_common *o, const struct audit_admin *f)
{
	struct follow_list l = { .member = "records",
				 .after = f->after,
				 .follow = f->follow,
				 .print = print_record,
				 .arg = o };
	OWN_API_CALL a = { 0 };
	struct target t;
	struct err e = { 0 };

	admin_target(&t, "/v1/audit", f);
	target_query(&t, "session", f->session);
	target_query(&t, "type", f->type);
	if (!f->follow)
		target_query_number(&t, "limit", 1000);
	if (api_call_open(&a, o, f->follow ? API_CALL_STREAM_MS : API_CALL_ANSWER_MS, &e) < 0 ||
	    follow_list(&a, &t, &l, &e) < 0)
		return args_refused(v, &e);
	return ARGS_OK;
}

/* ---- one record */

/* The list has no route for a single record, so a page of one is read. The number is compared:
 * after a gap the server would answer with the next record. */
int audit_admin_show(const struct verb *v, const struct args_common *o, const struct audit_admin *f)
{
	OWN_JSON *page = NULL;
	OWN_API_CALL a = { 0 };
	const json_t *item;
	struct target t;
	uint64_t seq;
	struct err e = { 0 };

	if (units_count(f->seq, 0, SEQ_TOP, &seq, &e) < 0)
		return args_wrong(v, "show: %.40s: must be the number of a record", f->seq);
	admin_target(&t, "/v1/audit", f);
	target_query_number(&t, "limit", 1);
	if (seq > 0)
		target_query_number(&t, "after", seq - 1);
	if (api_call_open(&a, o, API_CALL_ANSWER_MS, &e) < 0 ||
	    api_call_json(&a, "GET", &t, NULL, &page, &e) < 0)
		return args_refused(v, &e);
	item = json_array_get(json_object_get(page, "records"), 0);
	if (item == NULL || (uint64_t)json_integer_value(json_object_get(item, "seq")) != seq) {
		(void)err_set(&e, ERR_NOT_FOUND, "the log has no record %s", f->seq);
		return args_fail(&e);
	}
	show_json(item, true, stdout);
	return ARGS_OK;
}

/* ---- texts printed as they are */

struct audit_admin_sink {
	int fd;
};

static int on_bytes(void *arg, const void *data, size_t len, struct err *e)
{
	const struct audit_admin_sink *s = arg;

	return io_write_all(s->fd, data, len, e);
}

/* The body goes out as it arrives and is never whole in memory: an exported log may have
 * gigabytes. */
static int print_answer(const struct verb *v, const struct args_common *o, const struct target *t,
			int fd, uint64_t io_ms)
{
	struct client_request r = { .method = "GET" };
	struct audit_admin_sink to = { .fd = fd };
	OWN_API_CALL a = { 0 };
	struct err e = { 0 };

	if (api_call_open(&a, o, io_ms, &e) < 0 || api_call_send(&a, &r, t, &e) < 0 ||
	    client_read_each(a.client, on_bytes, &to, &e) < 0)
		return args_refused(v, &e);
	return ARGS_OK;
}

/* A fresh checkpoint covers the records up to now. An earlier epoch has ended, so its last
 * checkpoint is all there is. */
int audit_admin_head(const struct verb *v, const struct args_common *o, const struct audit_admin *f)
{
	struct target t;

	admin_target(&t, "/v1/audit/checkpoint", f);
	if (f->epoch == NULL)
		target_query(&t, "fresh", "true");
	return print_answer(v, o, &t, STDOUT_FILENO, API_CALL_ANSWER_MS);
}

/* O_EXCL: an export never overwrites an earlier one, which may be the only evidence of a change.
 * The file is for its owner only, because the log names people and commands. */
int audit_admin_export(const struct verb *v, const struct args_common *o,
		       const struct audit_admin *f)
{
	OWN_FD fd = -1;
	struct target t;
	struct err e;

	if (f->out != NULL) {
		fd = open(f->out, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd < 0) {
			(void)err_sys(&e, "%s", f->out);
			return args_fail(&e);
		}
	}
	admin_target(&t, "/v1/audit", f);
	target_query(&t, "proofs", "true");
	if (f->follow)
		target_query(&t, "follow", "true");
	return print_answer(v, o, &t, fd < 0 ? STDOUT_FILENO : fd,
			    f->follow ? 0 : API_CALL_ANSWER_MS);
}

/* ---- changes */

/* Both changes answer with a number of records. body is released here in every case. */
static int admin_change(const struct verb *v, const struct args_common *o, const char *path,
			json_t *body, const struct audit_admin *f, const char *words)
{
	OWN_JSON *owned = body;
	OWN_JSON *answer = NULL;
	OWN_API_CALL a = { 0 };
	struct target t;
	uint64_t epoch;
	struct err e = { 0 };

	if (f->epoch != NULL && units_count(f->epoch, 1, UINT32_MAX, &epoch, &e) < 0)
		return args_wrong(v, "--epoch: must be a number");
	if (f->epoch != NULL)
		(void)json_object_set_new(owned, "epoch", json_integer((json_int_t)epoch));
	if (f->tenant != NULL)
		(void)json_object_set_new(owned, "tenant", json_string(f->tenant));
	target_init(&t, path);
	if (api_call_open(&a, o, API_CALL_ANSWER_MS, &e) < 0 ||
	    api_call_json(&a, "POST", &t, owned, &answer, &e) < 0)
		return args_refused(v, &e);
	if (o->json)
		show_json(answer, true, stdout);
	else
		(void)printf("%" JSON_INTEGER_FORMAT " %s\n",
			     json_integer_value(json_object_get(answer, "records")), words);
	return ARGS_OK;
}

/* Exactly one way to choose records. Two ways would leave open whether both or either must
 * match, and erased values never come back. */
int audit_admin_erase(const struct verb *v, const struct args_common *o,
		      const struct audit_admin *f)
{
	json_t *body = json_object(), *names;
	uint64_t seq;
	struct err e;

	if ((f->seq != NULL) + (f->session != NULL) + (f->on_behalf != NULL) != 1) {
		json_decref(body);
		return args_wrong(v, "erase: one of a number, --session and --on-behalf");
	}
	if (f->seq != NULL && units_count(f->seq, 0, SEQ_TOP, &seq, &e) < 0) {
		json_decref(body);
		return args_wrong(v, "erase: %.40s: must be the number of a record", f->seq);
	}
	if (f->seq != NULL)
		(void)json_object_set_new(body, "seq", json_integer((json_int_t)seq));
	if (f->session != NULL)
		(void)json_object_set_new(body, "session", json_string(f->session));
	if (f->on_behalf != NULL)
		(void)json_object_set_new(body, "on_behalf", json_string(f->on_behalf));
	if (f->values->n > 0) {
		names = json_array();
		for (size_t i = 0; i < f->values->n; i++)
			(void)json_array_append_new(names, json_string(f->values->items[i]));
		(void)json_object_set_new(body, "values", names);
	}
	return admin_change(v, o, "/v1/audit/erase", body, f, "records lost values");
}

/* There is no default age: deletion needs a word from the operator. */
int audit_admin_prune(const struct verb *v, const struct args_common *o,
		      const struct audit_admin *f)
{
	if (f->keep == NULL)
		return args_wrong(v, "prune: --keep TIME says how old records may be to stay");
	return admin_change(v, o, "/v1/audit/prune", json_pack("{s:s}", "keep", f->keep), f,
			    "records deleted");
}
