/* net_log.c - see net_log.h. */
#include "daemon/egressctl/net_log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/alarms/alarm.h"
#include "daemon/audit/fact_lines.h"
#include "daemon/egressctl/net_batch.h"
#include "daemon/egressctl/net_state.h"
#include "daemon/egressctl/net_usage.h"
#include "daemon/execution/execution.h"
#include "daemon/node/core.h"
#include "daemon/node/core_metrics.h"
#include "daemon/secrets/secret_audit.h"
#include "daemon/secrets/secret_spec.h"
#include "daemon/session/session.h"
#include "daemon/store/store_execution.h"
#include "daemon/store/store_net.h"
#include "daemon/store/store_usage.h"
#include "daemon/store/store_package.h"
#include "daemon/tenant/event_log.h"
#include "daemon/tenant/record_quota.h"
#include "daemon/tenant/tenant.h"
#include "lib/base/buf.h"
#include "lib/base/list.h"
#include "lib/base/log.h"
#include "lib/base/str.h"
#include "lib/json/json.h"
#include "lib/mask/mask.h"
#include "lib/policy/access_record_text.h"
#include "lib/policy/policy_allow.h"

/* ---- refused hosts */

#define SLACK_MS 20 /* clocks of the two programs are read at different moments */

struct net_refusal {
	uint64_t time_ms; /* the last one */
	char kind[ACCESS_RECORD_TEXT_KIND_MAX], name[ACCESS_RECORD_TEXT_NAME_MAX];
	char reason[ACCESS_RECORD_TEXT_REASON_MAX];
	char execution[STORE_ID_MAX];
	bool by_rule; /* a rule denies it, or packages do: no rule for the host would help */
};

static unsigned refusals_count(const struct net_refusals *l)
{
	return l->n < NET_REFUSALS_MAX ? l->n : NET_REFUSALS_MAX;
}

/* A record that says so. execution: "" if it is not known. */
static void refusals_add(struct net_refusals *l, const struct access_record_text *r,
			 const char *execution)
{
	struct net_refusal *f = NULL;

	if (l->at == NULL)
		l->at = calloc(NET_REFUSALS_MAX, sizeof(*l->at));
	if (l->at == NULL)
		return; /* the record has it */
	for (unsigned i = 0; f == NULL && i < refusals_count(l); i++)
		if (strcmp(l->at[i].name, r->name) == 0 &&
		    strcmp(l->at[i].execution, execution) == 0)
			f = &l->at[i];
	if (f == NULL)
		f = &l->at[l->n++ % NET_REFUSALS_MAX];
	f->time_ms = r->time_ms;
	f->by_rule = r->rule[0] != '\0' || r->is_package;
	str_copy(f->kind, r->kind);
	str_copy(f->name, r->name);
	str_copy(f->reason, r->reason);
	str_copy(f->execution, execution);
}

void net_refusals_release(struct net_refusals *l)
{
	free(l->at);
	*l = (struct net_refusals){ 0 };
}

static bool refusals_is_of(const struct net_refusal *f, const struct store_execution *row)
{
	if (f->execution[0] != '\0')
		return strcmp(f->execution, row->id) == 0;
	return f->time_ms >= row->created_ms &&
	       (row->ended_ms == 0 || f->time_ms <= row->ended_ms + SLACK_MS);
}

static bool refusals_was_before(const struct net_refusals *l, unsigned i,
				const struct store_execution *row)
{
	for (unsigned k = 0; k < i; k++)
		if (refusals_is_of(&l->at[k], row) && strcmp(l->at[k].name, l->at[i].name) == 0)
			return true;
	return false;
}

void net_refusals_write(struct core *c, const struct store_execution *row, struct json *j)
{
	const struct session *s = session_by_id(c, row->session);
	const struct net_refusals *l;

	if (s == NULL)
		return;
	l = &net_session_of(s)->refused;
	json_open(j, "denied", '[');
	for (unsigned i = 0; i < refusals_count(l); i++) {
		if (!refusals_is_of(&l->at[i], row) || refusals_was_before(l, i, row))
			continue;
		json_open(j, NULL, '{');
		json_text(j, "kind", l->at[i].kind);
		json_text(j, "name", l->at[i].name);
		json_text(j, "reason", l->at[i].reason);
		if (l->at[i].by_rule)
			json_none(j, "allow");
		else
			policy_allow_write(j, l->at[i].name);
		json_close(j, '}');
	}
	json_close(j, ']');
}

#define NAMED 3 /* hosts in a line */
#define NAME_SHOWN 100

/* Names are of the cell's choice: nothing that changes a terminal. */
static void refusals_put_name(struct buf *b, const char *name)
{
	for (size_t i = 0; name[i] != '\0' && i < NAME_SHOWN; i++)
		buf_printf(b, "%c", name[i] > ' ' && name[i] < 0x7f ? name[i] : '?');
}

/* Append the preset or rule for the host, each preset once. */
static void refusals_put_allow(struct buf *b, const struct net_refusal *f)
{
	const char *preset = policy_allow_preset(f->name), *before = b->len == 0 ? "" : ", ";
	char text[64];

	if (f->by_rule || !policy_allow_is_host(f->name) || strlen(f->name) > NAME_SHOWN)
		return;
	if (preset == NULL) {
		buf_printf(b, "%sa rule for %s", before, f->name);
		return;
	}
	(void)snprintf(text, sizeof(text), "the preset %s", preset);
	if (strstr(buf_text(b), text) == NULL)
		buf_printf(b, "%s%s", before, text);
}

void net_refusals_line(struct core *c, const struct store_execution *row,
		       char ret[NET_REFUSALS_LINE])
{
	const struct session *s = session_by_id(c, row->session);
	const struct net_refusals *l = s == NULL ? NULL : &net_session_of(s)->refused;
	struct buf names = BUF_INIT(NET_REFUSALS_LINE), allow = BUF_INIT(NET_REFUSALS_LINE);
	unsigned n = 0;

	for (unsigned i = 0; l != NULL && i < refusals_count(l); i++) {
		if (!refusals_is_of(&l->at[i], row) || refusals_was_before(l, i, row) ||
		    ++n > NAMED)
			continue;
		buf_put_text(&names, n == 1 ? "" : ", ");
		refusals_put_name(&names, l->at[i].name);
		refusals_put_allow(&allow, &l->at[i]);
	}
	ret[0] = '\0';
	if (n > 0)
		(void)snprintf(ret, NET_REFUSALS_LINE,
			       "cordon: the network policy refused %u host%s (%.330s%s)%s%.400s\n",
			       n, n == 1 ? "" : "s", buf_text(&names), n > NAMED ? ", ..." : "",
			       allow.len == 0 ? "" : "; what allows them: ", buf_text(&allow));
	buf_release(&names);
	buf_release(&allow);
}

/* ---- packages */

#define DETAILS_MAX 4096
#define ALARMS_MAX 64U		       /* events of a session */
#define TIME_MAX_MS 253402300800000ULL /* the year 10000: a registry may send any number */
#define DROP_AT_ONCE 64 /* rows beyond the bound of a session, so that not every record deletes */

/* An install attempt is a file, or metadata not given, or not all of it: a row of the newest hidden
 * version. Uploads, searches and audits are network records only. */
static bool package_is_attempt(const struct package_record *p)
{
	if (p->name[0] == '\0' && p->file[0] == '\0')
		return false;
	if (strcmp(p->kind, "file") == 0)
		return true;
	return p->result != PACKAGE_RESULT_PASSED &&
	       (strcmp(p->kind, "meta") == 0 || strcmp(p->kind, "filemeta") == 0);
}

static void package_write_text(struct json *j, const char *name, const char *text)
{
	if (text[0] != '\0')
		json_text(j, name, text);
}

static void package_write_time(struct json *j, const char *name, uint64_t ms)
{
	time_t seconds = (time_t)(ms / 1000);
	char text[40];
	struct tm tm;

	if (ms < TIME_MAX_MS && gmtime_r(&seconds, &tm) != NULL &&
	    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm) > 0)
		json_text(j, name, text);
}

/* The members of a row that only the record that decided has. */
static void package_write_details(struct json *j, const struct access_record_text *r)
{
	const struct package_record *p = &r->package;

	json_open(j, NULL, '{');
	json_text(j, "file", p->file);
	json_text(j, "verdict", r->allowed ? "allow" : "deny");
	package_write_text(j, "rule", r->rule);
	package_write_text(j, "reason", r->reason);
	package_write_text(j, "checksum", p->checksum);
	package_write_text(j, "expected", p->expected);
	package_write_text(j, "algorithm", p->algorithm);
	json_bool(j, "verified", p->verified);
	if (p->has_time)
		package_write_time(j, "released_at", p->released_ms);
	if (p->has_age)
		json_uint(j, "age_s", p->age_s);
	package_write_text(j, "install_code", p->install_code);
	package_write_text(j, "cache", p->cache);
	json_bool(j, "direct", p->direct);
	json_bool(j, "changed", p->changed);
	json_bool(j, "backdated", p->backdated);
	if (r->status != 0)
		json_uint(j, "status", r->status);
	json_uint(j, "size", r->bytes);
	if (p->result == PACKAGE_RESULT_DOWNLOADED && p->file[0] != '\0' &&
	    p->checksum[0] != '\0') {
		json_open(j, "files", '{'); /* a version may have several: all are kept */
		json_text(j, p->file, p->checksum);
		json_close(j, '}');
	}
	json_close(j, '}');
}

/* Delete rows of the session if it has too many, the refused ones first. */
static int package_bound(struct session *s, struct err *e)
{
	struct net_session *n = net_session_of(s);
	uint64_t max = core_config(session_core(s))->network_records_session_max;
	int gone;

	if (n->packages == 0 && store_package_count(core_store(session_core(s)), session_row(s)->id,
						    &n->packages, e) < 0)
		return -1;
	if (n->packages <= max + DROP_AT_ONCE)
		return 0;
	gone = store_package_drop(core_store(session_core(s)), session_row(s)->id, DROP_AT_ONCE, e);
	if (gone < 0)
		return -1;
	record_bounds_add(session_core(s), session_tenant(s), RECORD_PACKAGE, -gone);
	n->packages = 0; /* counted again at the next one */
	return 0;
}

/* PyPI's file names write names in other ways than its pages: the row has the one form of both. */
static void package_name_row(const struct package_record *p, char ret[PACKAGE_NAME_MAX])
{
	char normal[PACKAGE_NAME_MAX];
	bool other = strcmp(p->ecosystem, ecosystem_name(ECO_PYPI)) == 0 &&
		     package_name_normal(ECO_PYPI, p->name, strlen(p->name), normal);

	str_copy_to(ret, PACKAGE_NAME_MAX, other ? normal : p->name);
}

static int package_add_row(struct session *s, const struct access_record_text *r,
			   const char *execution, struct err *e)
{
	const struct package_record *p = &r->package;
	struct store_package row = { .result = p->result, .attempts = 1 };
	char details[DETAILS_MAX];
	struct json j;
	bool is_new = false;

	json_init(&j, details, sizeof(details));
	package_write_details(&j, r);
	memcpy(row.tenant, session_row(s)->tenant, sizeof(row.tenant));
	memcpy(row.session, session_row(s)->id, sizeof(row.session));
	memcpy(row.ecosystem, p->ecosystem, sizeof(row.ecosystem));
	memcpy(row.registry, p->registry, sizeof(row.registry));
	package_name_row(p, row.name);
	memcpy(row.version, p->result == PACKAGE_RESULT_HIDDEN ? p->newest_hidden : p->version,
	       sizeof(row.version));
	str_copy(row.execution, execution);
	row.downloads = p->result == PACKAGE_RESULT_DOWNLOADED;
	row.refusals = p->result == PACKAGE_RESULT_REFUSED;
	row.bytes = row.downloads != 0 ? r->bytes : 0;
	row.first_ms = row.last_ms = r->time_ms;
	row.data = json_ok(&j) ? j.text : "{\"file\":\"\"}";
	if (store_package_add(core_store(session_core(s)), &row, &is_new, e) < 0)
		return -1;
	if (!is_new)
		return 0;
	if (net_session_of(s)->packages > 0)
		net_session_of(s)->packages++;
	record_bounds_add(session_core(s), session_tenant(s), RECORD_PACKAGE, 1);
	return package_bound(s, e);
}

/* A registry that says something else than before: an event, beside the record. A session has few
 * of them, however often it asks. */
static int package_raise_alarm(struct session *s, const struct package_record *p, struct err *e)
{
	struct net_session *n = net_session_of(s);
	const char *type = p->changed ? "package.changed" : "package.backdated";

	if (!p->changed && !p->backdated)
		return 0;
	core_metrics_package_alarm(type + strlen("package."));
	if (n->package_alarms == ALARMS_MAX)
		return 0;
	n->package_alarms++;
	return event_log_append(session_core(s), NULL, session_row(s)->tenant, session_row(s)->id,
				"", type, e,
				"ecosystem\t%s\nregistry\t%s\nname\t%s\nversion\t%s\nfile\t%s\n",
				p->ecosystem, p->registry, p->name, p->version, p->file);
}

/* execution: the one the record came from, or "". Errors are the store's, after its rollback. */
static int package_take(struct session *s, const struct access_record_text *r,
			const char *execution, struct err *e)
{
	const struct package_record *p = &r->package;
	struct store_package_sum sum = {
		.downloads = p->result == PACKAGE_RESULT_DOWNLOADED,
		.refusals = p->result == PACKAGE_RESULT_REFUSED,
		.mismatches = p->result == PACKAGE_RESULT_HASH_MISMATCH,
		.hits = p->result == PACKAGE_RESULT_DOWNLOADED && strcmp(p->cache, "hit") == 0,
		.bytes = strcmp(p->kind, "file") == 0 ? r->bytes : 0,
	};

	core_metrics_package(package_result_name(p->result), p->cache, sum.bytes);
	if (package_raise_alarm(s, p, e) < 0)
		return -1;
	if (store_package_sum_add(core_store(session_core(s)), session_row(s)->id, &sum, e) < 0)
		return -1;
	return package_is_attempt(p) ? package_add_row(s, r, execution, e) : 0;
}

/* A session may exceed its bound by 1/BOUND_SLACK, so that not every record needs a delete. */
/* ---- network records */

#define BOUND_SLACK 16

/* Delete the oldest records of the session if there are too many. */
static int net_log_bound(struct session *s, struct err *e)
{
	uint64_t max = core_config(session_core(s))->network_records_session_max, gone = 0;
	int n;

	if (net_session_of(s)->records == 0 &&
	    store_net_count(core_store(session_core(s)), session_row(s)->id,
			    &net_session_of(s)->records, e) < 0)
		return -1;
	if (net_session_of(s)->records <= max + max / BOUND_SLACK)
		return 0;
	if (net_batch_finish(s, e) < 0)
		return -1;
	n = store_net_drop(core_store(session_core(s)), session_row(s)->id,
			   net_session_of(s)->records - max, &gone, e);
	if (n < 0)
		return -1;
	record_bounds_add(session_core(s), session_tenant(s), RECORD_NET, -n);
	/* If fewer were there than counted, because retention has deleted some, it is counted
	 * again. */
	net_session_of(s)->records =
		gone < net_session_of(s)->records - max ? 0 : net_session_of(s)->records - gone;
	return 0;
}

static void net_log_notify_later(struct session *s)
{
	struct net_access *n = net_access_of(session_core(s));
	bool any = false;

	for (struct net_log_listener *l = n->listeners; l != NULL; l = l->next)
		if (strcmp(l->session, session_row(s)->id) == 0 ||
		    (l->session[0] == '\0' && strcmp(l->tenant, session_row(s)->tenant) == 0))
			any = l->due = true;
	if (any)
		loop_defer(core_loop(n->core), &n->notify);
}

/* Find the execution by the mark of its processes, among those of this session. Otherwise the
 * record says why it is not known. */
static int net_log_name_execution(struct session *s, const struct access_record_text *r,
				  struct store_net *row, char **text, struct err *e)
{
	const char *word = r->unknown[0] != '\0' ? r->unknown : "unsupported";
	char *longer;

	if (r->mark != 0) {
		if (execution_id_by_mark(s, r->mark, row->execution, e) < 0)
			return -1;
		word = "no_execution";
	}
	if (row->execution[0] != '\0')
		return 0;
	/* The text is an object with members. */
	if (asprintf(&longer, "%.*s,\"execution_unknown\":\"%s\"}", (int)strlen(*text) - 1, *text,
		     word) < 0)
		return err_set(e, ERR_SYSTEM, "record: out of memory");
	free(*text);
	*text = longer;
	return 0;
}

#define HOUR_MS 3600000ULL
#define LABEL_LONG 40 /* bytes of a label that few hosts have: names that carry data do */

static bool net_log_has_long_label(const char *name)
{
	while (*name != '\0') {
		size_t n = strcspn(name, ".");

		if (n >= LABEL_LONG)
			return true;
		name += n + (name[n] == '.');
	}
	return false;
}

/* Many different names, refused or with long labels, are the mark of a program that sends data by
 * its lookups. */
static void net_log_look_for_alarms(struct session *s, const struct access_record_text *r)
{
	const struct package_record *p = &r->package;
	char facts[64 + PACKAGE_NAME_MAX + PACKAGE_VERSION_MAX];

	if (strcmp(r->kind, "dns") == 0) {
		if (r->name[0] != '\0' && (!r->allowed || net_log_has_long_label(r->name)))
			alarm_on_name(s, r->name);
	} else if (!r->allowed && r->name[0] != '\0' && strcmp(r->kind, "datagram") != 0) {
		alarm_on_host(s, r->name);
	}
	if (!r->is_package || (strstr(r->rule, "advisories") == NULL && !p->changed &&
			       p->result != PACKAGE_RESULT_HASH_MISMATCH))
		return;
	(void)fact_lines_print(facts, sizeof(facts), "ecosystem\t%s\nname\t%s\nversion\t%s\n",
			       p->ecosystem, p->name, p->version);
	alarm_raise(s, ALARM_PACKAGE, 1, facts);
}

static bool cover_text(void *arg, char *text)
{
	const struct mask *m = session_mask(arg);

	return mask_text(m, NULL, (uint8_t *)text, strlen(text)) > 0;
}

/* Secrets whose values cordon-egress put into the request. It is not trusted with the names. */
static int net_log_note_secrets(struct session *s, const struct access_record_text *r,
				const char *execution, struct err *e)
{
	char name[STORE_NAME_MAX];

	for (const char *at = r->secrets; *at != '\0';) {
		size_t n = strcspn(at, ",");

		if (n > 0 && n < sizeof(name)) {
			memcpy(name, at, n);
			name[n] = '\0';
			if (secret_spec_is_name(name) &&
			    secret_audit_used(s, name, "broker", r->name, execution, e) < 0)
				return -1;
		}
		at += n + (at[n] == ',');
	}
	return 0;
}

/* In the transaction of the record: a call is counted once, with it. */
static int net_log_count_tokens(struct session *s, const struct access_record_text *r,
				struct err *e)
{
	const struct store_usage_sums more = { .tokens_in = r->tokens_in,
					       .tokens_out = r->tokens_out };
	const uint64_t now = core_now_ms();

	if (r->tokens_in + r->tokens_out == 0)
		return 0;
	return store_usage_add(core_store(session_core(s)), session_row(s)->tenant,
			       session_row(s)->id, now - now % HOUR_MS, &more, NULL, e);
}

/* clean may be replaced by another one. */
static int net_log_write_record(struct session *s, struct access_record_text *r, char **clean,
				struct err *e)
{
	struct store_net row = { 0 };

	memcpy(row.tenant, session_row(s)->tenant, sizeof(row.tenant));
	memcpy(row.session, session_row(s)->id, sizeof(row.session));
	memcpy(row.kind, r->kind, sizeof(row.kind));
	memcpy(row.name, r->name, sizeof(row.name));
	row.time_ms = r->time_ms;
	row.allowed = r->allowed;
	if (net_log_name_execution(s, r, &row, clean, e) < 0 ||
	    (session_redacts(s) && access_record_text_cover(clean, r, cover_text, s, e) < 0))
		return -1;
	row.data = *clean;
	if (store_net_append(core_store(session_core(s)), &row, NULL, e) < 0)
		return -1;
	if (net_session_of(s)->records > 0)
		net_session_of(s)->records += STORE_NET_WEIGHT(strlen(*clean));
	if (net_log_note_secrets(s, r, row.execution, e) < 0 || net_log_count_tokens(s, r, e) < 0 ||
	    net_batch_count(s, STORE_NET_WEIGHT(strlen(*clean)), e) < 0)
		return -1;
	record_bounds_add(session_core(s), session_tenant(s), RECORD_NET, 1);
	net_log_notify_later(s);
	net_log_look_for_alarms(s, r);
	/* Datagrams have neither a host nor a known execution. */
	if (!r->allowed && strcmp(r->kind, "datagram") != 0)
		refusals_add(&net_session_of(s)->refused, r, row.execution);
	if (r->is_package && package_take(s, r, row.execution, e) < 0)
		return -1;
	return net_log_bound(s, e);
}

int net_log_take(struct session *s, const char *text, size_t len, bool *ret_allowed, struct err *e)
{
	struct access_record_text r;
	OWN_MEM char *clean = NULL;

	if (access_record_text_read(text, len, &r, &clean, e) < 0)
		return -1;
	*ret_allowed = r.allowed;
	if (net_log_write_record(s, &r, &clean, e) == 0)
		return 0;
	if (e->code == ERR_INVALID) /* of the store, after its rollback */
		e->code = ERR_SYSTEM;
	return -1;
}

/* Raises a total of the session. Every egress counts on from the totals in the session's first
 * configuration. */
static void net_log_add(uint64_t now, uint64_t *sum, uint64_t *all)
{
	if (now <= *sum || now > INT64_MAX)
		return;
	*all += now - *sum;
	*sum = now;
}

int net_log_counts(struct session *s, const char *text, size_t len, struct err *e)
{
	struct store_usage *u = session_usage(s);
	struct egress_numbers *all = &net_access_of(session_core(s))->egress.numbers;
	struct record_counts now;

	if (access_record_text_counts(text, len, &now, e) < 0)
		return -1;
	net_log_add(now.bytes_in, &u->net_bytes_in, &all->bytes_in);
	net_log_add(now.bytes_out, &u->net_bytes_out, &all->bytes_out);
	net_log_add(now.requests, &u->net_requests, &all->requests);
	net_usage_take(s, &now);
	return 0;
}

void net_log_listen(struct core *c, struct net_log_listener *l)
{
	struct net_access *n = net_access_of(c);

	LIST_PUSH(&n->listeners, l);
}

void net_log_unlisten(struct net_log_listener *l)
{
	LIST_REMOVE(l);
}

static struct net_log_listener *net_log_find_calling(struct net_log_listener *l)
{
	while (l != NULL && !l->calling)
		l = l->next;
	return l;
}

void net_log_on_notify(struct loop_task *t)
{
	struct net_access *n = t->arg;
	struct net_log_listener *l;

	for (l = n->listeners; l != NULL; l = l->next) {
		l->calling = l->due;
		l->due = false;
	}
	/* A listener may end others: after each the search begins again. */
	while ((l = net_log_find_calling(n->listeners)) != NULL) {
		l->calling = false;
		l->on_records(l);
	}
}
