/* api_report.c - a signed report for an auditor: which controls are in force and how that was
 * found, versions, settings, keys, the last checkpoint (doc/audit.md). GET /v1/report of a tenant
 * and the node, GET /v1/sessions/{session}/report of a session.
 *
 * The report is the payload of a DSSE envelope. cordon-notary signs it by its second key. Each
 * report is on record before it is made. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "daemon/audit/audit.h"
#include "daemon/audit/audit_check.h"
#include "daemon/audit/audit_checkpoint.h"
#include "daemon/audit/audit_read.h"
#include "daemon/audit/notary_link.h"
#include "daemon/session/session_settings.h"
#include "daemon/tenant/tenant.h"
#include "front/rest/api_handlers.h"
#include "front/rest/report_parts.h"
#include "front/web/auth.h"
#include "front/web/json_view.h"
#include "front/web/reply.h"
#include "front/web/request.h"
#include "lib/base/base64.h"
#include "lib/base/clock.h"
#include "lib/base/fd.h"
#include "lib/base/sha256.h"
#include "lib/config/config_value.h"
#include "lib/json/json.h"

/* How long the report waits for a checkpoint. */
#define SIGN_MS 10000
#define CHECK_MS 20000 /* for comparing the log. A longer one is told as not finished */

/* The state of a report. The steps are on_checkpoint(), on_checking() in pieces, on_key_known()
 * with api_report_compose(), and on_signed(). Each either starts the next one or answers. */
struct api_report {
	struct request *r;
	struct notary_call sign, key;
	char attest_vkey[TLOG_VKEY_MAX];
	struct audit_check check;
	struct job checking;
	uint64_t check_until_ns, checked_ms;
	struct json body;
	bool composed;
};

/* Ends each step that still waits, whichever it is. */
static void report_release(struct request *r, bool answered)
{
	struct api_report *p = r->state;

	notary_link_cancel(&p->sign);
	notary_link_cancel(&p->key);
	core_job_cancel(r->core, &p->checking);
	if (p->composed)
		json_release(&p->body);
}

/* ---- controls
 *
 * One row for each protection: its name, if it is in force, how that was found, and the finding. A
 * row says only what this process or the keeper has tried or asked. */

/* found NULL: the check has no text. */
static void api_report_control(struct json *j, const char *name, bool holds, const char *how,
			       const char *found)
{
	json_open(j, NULL, '{');
	json_text(j, "control", name);
	json_bool(j, "in_force", holds);
	json_text(j, "checked", how);
	json_text(j, "found", found);
	json_close(j, '}');
}

/* A file that any process of the machine may read, but not one behind Landlock. True: opening the
 * file was denied. found gets the kernel's answer. */
static bool is_confined(char found[64])
{
	int fd = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
	bool denied = fd < 0 && (errno == EACCES || errno == EPERM);

	(void)snprintf(found, 64, "open: %s", fd >= 0 ? "allowed" : strerror(errno));
	if (fd >= 0)
		fd_close(fd);
	return denied;
}

/* w is the keeper's report at its start. */
static void write_limits(struct json *j, const struct cell_restrictions *w)
{
	static const struct {
		const char *name;
		uint32_t bit;
	} limits[] = { { "memory limits of sessions", CELL_LIMIT_MEMORY },
		       { "processor limits of sessions", CELL_LIMIT_CPU },
		       { "process limits of sessions", CELL_LIMIT_PIDS } };

	for (size_t i = 0; i < COUNT(limits); i++)
		api_report_control(j, limits[i].name, (w->limits & limits[i].bit) != 0,
				   "the keeper set it in a cgroup of its own when it started",
				   w->no_limits_why[0] == '\0' ? NULL : w->no_limits_why);
}

/* Without a keeper no statement about cells can be made, and the row says so. */
static void write_cells(struct json *j, const struct cell_restrictions *w)
{
	char found[64];

	if (w == NULL) {
		api_report_control(j, "cells", false, "no keeper has connected since the start",
				   NULL);
		return;
	}
	api_report_control(
		j, "namespaces and system call filter of cells", true,
		"the keeper makes no cell without them: a cell that could not be restricted is "
		"not started",
		"user mount pid net ipc uts cgroup time");
	(void)snprintf(found, sizeof(found), "ABI %u", w->landlock_abi);
	api_report_control(j, "Landlock in cells", w->landlock_abi > 0,
			   "the keeper asked the kernel", found);
	(void)snprintf(found, sizeof(found), "%u ids", w->ids);
	api_report_control(j, "ids of a session are its own", w->ids > 1,
			   "the keeper read its id map when it started", found);
	write_limits(j, w);
}

/* Alarms are counted since cordond started. */
static void write_controls(struct json *j, const struct api_report *p)
{
	struct request *r = p->r;
	struct audit_counts n;
	char found[64];
	bool confined = is_confined(found);

	audit_counts(core_audit(r->core), &n);
	json_open(j, "controls", '[');
	api_report_control(j, "cordond sees its own folders only", confined,
			   "cordond tried to open /etc/passwd for this report", found);
	api_report_control(j, "cordond is not root", geteuid() != 0, "cordond asked the kernel",
			   NULL);
	api_report_control(j, "checkpoints are signed by another process", n.notary_up,
			   "cordon-notary signed this report", NULL);
	api_report_control(j, "every record is covered by a checkpoint in time", n.late_ms == 0,
			   "the time since which records wait", NULL);
	api_report_control(
		j, "no audit log was rolled back, forked, cut, or ended by another key",
		n.alarms_rollback + n.alarms_fork + n.alarms_gap + n.alarms_key == 0,
		"cordon-notary compares each checkpoint with what it signed before: since the "
		"start",
		NULL);
	api_report_control(
		j, "every kept record of this audit log is the one that was signed",
		p->check.result == AUDIT_CHECK_GOOD,
		"cordond compared the records, their hashes and the signed root for this report",
		audit_check_name(p->check.result));
	write_cells(j, core_restrictions(r->core));
	json_close(j, ']');
}

/* ---- settings, keys, log
 *
 * Each writer adds a member to the open report object. */

/* Settings that decide how long records live and how much they show. A renamed setting would be
 * left out. */
static void write_settings(struct json *j, const struct request *r)
{
	static const char *const names[] = {
		"audit_retention", "audit_max",	      "tenant_audit_max", "audit_checkpoint",
		"retention",	   "event_retention", "usage_retention",  "snapshot_keep",
		"cold_keep",	   "network_default", "captured_secrets", "redact",
		"alarms",	   "refused_calls",   "tls_local",
	};
	char text[512];

	json_open(j, "settings", '{');
	for (size_t i = 0; i < COUNT(names); i++) {
		const struct config_setting *s = config_table_find(names[i], strlen(names[i]));

		if (s == NULL)
			continue;
		config_value_format(s, core_config(r->core), text, sizeof(text));
		json_text(j, names[i], text);
	}
	json_close(j, '}');
}

/* When the log was compared with its checkpoint, how much of it, and the result. */
static void write_check(struct json *j, const struct api_report *p)
{
	const struct audit_check *c = &p->check;

	json_open(j, "verification", '{');
	json_text(j, "result", audit_check_name(c->result));
	json_view_time(j, "time", p->checked_ms);
	json_uint(j, "size", c->size);
	json_uint(j, "records", c->records);
	if (c->result == AUDIT_CHECK_CHANGED || c->result == AUDIT_CHECK_MISSING)
		json_uint(j, "wrong_from", c->at);
	else
		json_none(j, "wrong_from");
	json_close(j, '}');
}

/* The state of the tenant's own log, with the result of on_checking(). */
static int write_log(struct json *j, const struct api_report *p, struct err *e)
{
	struct request *r = p->r;
	struct store_audit_log log;
	char origin[TLOG_NAME_MAX];
	uint64_t size;

	if (audit_log_get(core_audit(r->core), tenant_row(r->tenant)->id, &log, &size, e) < 0)
		return -1;
	audit_origin(core_audit(r->core), &log, origin);
	json_open(j, "audit", '{');
	json_text(j, "origin", origin);
	json_uint(j, "epoch", log.epoch);
	json_text(j, "alarm", log.alarm[0] == '\0' ? NULL : log.alarm);
	json_uint(j, "first", log.first);
	json_uint(j, "records", size);
	json_text(j, "vkey", audit_vkey(core_audit(r->core)));
	json_view_time(j, "signed_at", log.note_ms);
	json_text(j, "checkpoint", log.note_size == 0 ? NULL : log.note);
	write_check(j, p);
	json_close(j, '}');
	store_audit_log_release(&log);
	return 0;
}

/* The present state if the session lives, otherwise its row. */
static int write_session(struct json *j, struct request *r, struct err *e)
{
	struct store_session row;
	struct session *live;
	const struct store_session *now;
	char hex[2 * SHA256_SIZE + 1];

	if (session_get(r->core, r->tenant, r->session_id, &row, e) < 0)
		return -1;
	now = session_now(r->core, &row, &live);
	json_view_session(j, "session", now, live, false, false);
	session_policy_hash(now, hex);
	json_text(j, "policy_sha256", hex);
	store_session_release(&row);
	return 0;
}

/* The whole payload. It is bounded by NOTARY_BODY_MAX, because cordon-notary takes no longer body.
 */
static int api_report_compose(struct api_report *p, struct err *e)
{
	struct request *r = p->r;
	struct json *j = &p->body;
	struct utsname u = { 0 };

	json_init_heap(j, NOTARY_BODY_MAX);
	p->composed = true;
	(void)uname(&u);
	json_open(j, NULL, '{');
	json_uint(j, "cordon_report", 1);
	json_view_time(j, "time", clock_wall_ms());
	json_text(j, "tenant", tenant_row(r->tenant)->id);
	json_text(j, "tenant_name", tenant_row(r->tenant)->name);
	json_text(j, "version", CORDON_VERSION);
	json_text(j, "kernel", u.release);
	json_text(j, "machine", u.machine);
	json_text(j, "attest_vkey", p->attest_vkey);
	write_controls(j, p);
	write_settings(j, r);
	report_policies(j, r);
	report_evidence(j, r);
	if (write_log(j, p, e) < 0 || (r->session_id[0] == '\0' && report_keys(j, r, e) < 0) ||
	    (r->session_id[0] != '\0' && write_session(j, r, e) < 0))
		return -1;
	json_close(j, '}');
	return json_ok(j) ? 0 : err_set(e, ERR_LIMIT, "the report is too long to be signed");
}

/* ---- sign and answer
 *
 * These steps run in the reverse order of their definitions. */

/* The answer is a DSSE envelope: the payload in base64 and one signature. */
static void on_signed(struct notary_call *c, const struct notary_msg *answer, const struct err *e)
{
	struct api_report *p = c->arg;
	size_t len = p->body.len, cap = BASE64_LENGTH(len) + 1;
	OWN_MEM char *text = malloc(cap);
	char sig[BASE64_LENGTH(NOTARY_SIG) + 1];
	struct json j;

	if (e != NULL || answer->type != NOTARY_ATTESTED || text == NULL) {
		reply_code(p->r, 503, "unavailable", "cordon-notary cannot sign now");
		return;
	}
	base64_encode(p->body.text, len, text);
	base64_encode(answer->sig, NOTARY_SIG, sig);
	json_init_heap(&j, cap + 4096);
	json_open(&j, NULL, '{');
	json_text(&j, "payloadType", notary_payload_name(NOTARY_PAYLOAD_REPORT));
	json_text(&j, "payload", text);
	json_open(&j, "signatures", '[');
	json_open(&j, NULL, '{');
	json_text(&j, "keyid", answer->keyid);
	json_text(&j, "sig", sig);
	json_close(&j, '}');
	json_close(&j, ']');
	json_close(&j, '}');
	reply_json(p->r, 200, &j);
}

/* The report names the key that will sign it, so the key is asked for first. */
static void on_key_known(struct notary_call *c, const struct notary_msg *answer,
			 const struct err *e)
{
	struct api_report *p = c->arg;
	struct notary_link *notary = core_options(p->r->core)->notary;
	struct err why = { 0 };

	if (e != NULL || answer->type != NOTARY_KEY_IS) {
		reply_code(p->r, 503, "unavailable", "cordon-notary does not answer");
		return;
	}
	(void)snprintf(p->attest_vkey, sizeof(p->attest_vkey), "%s", answer->attest_vkey);
	if (api_report_compose(p, &why) < 0) {
		reply_error(p->r, &why);
		return;
	}
	p->sign = (struct notary_call){ .on_done = on_signed, .arg = p };
	notary_link_attest(notary, &p->sign, NOTARY_PAYLOAD_REPORT, p->body.text, p->body.len);
}

static void ask_key(struct api_report *p)
{
	p->checked_ms = clock_wall_ms();
	p->key = (struct notary_call){ .on_done = on_key_known, .arg = p };
	notary_link_key(core_options(p->r->core)->notary, &p->key);
}

/* A comparison that takes longer than CHECK_MS ends unfinished, and the report says so. The answer
 * of a comparison that failed by itself is that error. */
static bool on_checking(struct job *job)
{
	struct api_report *p = job->arg;
	struct err e = { 0 };
	int more = audit_check_step(&p->check, &e);

	if (more > 0 && clock_now_ns() < p->check_until_ns)
		return true;
	if (more < 0)
		reply_error(p->r, &e);
	else
		ask_key(p);
	return false;
}

/* The last checkpoint covers the record of this reading. One that does not come is told in the
 * report by its age. */
static void on_checkpoint(struct completion *w, const struct err *failed)
{
	struct request *r = w->arg;
	struct api_report *p = r->state;
	struct err e = { 0 };

	if (audit_check_begin(core_audit(r->core), tenant_row(r->tenant)->id, &p->check, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	p->check_until_ns = clock_now_ns() + CHECK_MS * CLOCK_MS;
	p->checking = (struct job){ .on_piece = on_checking, .arg = p };
	core_job_add(r->core, r->tenant, &p->checking);
}

/* The reading is on record before the first step. */
void api_report(struct request *r)
{
	struct api_report *p = request_state(r, sizeof(*p), report_release);
	struct session *live;
	struct err e = { 0 };

	if (p == NULL)
		return;
	*p = (struct api_report){ .r = r };
	if ((r->session_id[0] != '\0' && request_owns(r, &live, &e) < 0) ||
	    audit_note_read(core_audit(r->core), request_actor(r), tenant_row(r->tenant)->id,
			    &(struct audit_reading){
				    .how = "report", .session = r->session_id, .type = "" },
			    &e) < 0) {
		reply_error(r, &e);
		return;
	}
	if (core_options(r->core)->notary == NULL) {
		reply_code(r, 503, "unavailable", "there is no cordon-notary");
		return;
	}
	r->wait.on_done = on_checkpoint;
	r->wait.arg = r;
	audit_checkpoint_wait(core_audit(r->core), tenant_row(r->tenant)->id, &r->wait);
	if (completion_is_waiting(&r->wait))
		completion_set_deadline(&r->wait, SIGN_MS, "a checkpoint");
}
