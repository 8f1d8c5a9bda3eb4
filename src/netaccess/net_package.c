/* net_package.c - see net_package.h. */
#include "net_package.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "access_record_text.h"
#include "core_metrics.h"
#include "event_log.h"
#include "json.h"
#include "net_state.h"
#include "record_bounds.h"
#include "session.h"
#include "store_package.h"

#define DETAILS_MAX 4096
#define ALARMS_MAX 64U		       /* events of a session */
#define TIME_MAX_MS 253402300800000ULL /* the year 10000: what a registry says may be nonsense */
#define DROP_AT_ONCE 64 /* rows beyond the bound of a session, so that not every record deletes */

/* What an install attempt is: a file, or metadata that was not given, or not all of it: a row of
 * the newest version that was hidden. Uploads, searches and audits are network records only. */
static bool is_attempt(const struct package_record *p)
{
	if (p->name[0] == '\0' && p->file[0] == '\0')
		return false;
	if (strcmp(p->kind, "file") == 0)
		return true;
	return p->result != PACKAGE_RESULT_PASSED &&
	       (strcmp(p->kind, "meta") == 0 || strcmp(p->kind, "filemeta") == 0);
}

static void write_text(struct json *j, const char *name, const char *text)
{
	if (text[0] != '\0')
		json_text(j, name, text);
}

static void write_time(struct json *j, const char *name, uint64_t ms)
{
	time_t seconds = (time_t)(ms / 1000);
	char text[40];
	struct tm tm;

	if (ms < TIME_MAX_MS && gmtime_r(&seconds, &tm) != NULL &&
	    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm) > 0)
		json_text(j, name, text);
}

/* The members of a row that only the record that decided has. */
static void write_details(struct json *j, const struct access_record_text *r)
{
	const struct package_record *p = &r->package;

	json_open(j, NULL, '{');
	json_text(j, "file", p->file);
	json_text(j, "verdict", r->allowed ? "allow" : "deny");
	write_text(j, "rule", r->rule);
	write_text(j, "reason", r->reason);
	write_text(j, "checksum", p->checksum);
	write_text(j, "expected", p->expected);
	write_text(j, "algorithm", p->algorithm);
	json_bool(j, "verified", p->verified);
	if (p->has_time)
		write_time(j, "released_at", p->released_ms);
	if (p->has_age)
		json_uint(j, "age_s", p->age_s);
	write_text(j, "install_code", p->install_code);
	write_text(j, "cache", p->cache);
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

/* Deletes rows of the session if it has too many, those that were only refused first. */
static int bound(struct session *s, struct err *e)
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
static void name_row(const struct package_record *p, char ret[PACKAGE_NAME_MAX])
{
	char normal[PACKAGE_NAME_MAX];
	bool other = strcmp(p->ecosystem, ecosystem_name(ECO_PYPI)) == 0 &&
		     package_name_normal(ECO_PYPI, p->name, strlen(p->name), normal);

	(void)snprintf(ret, PACKAGE_NAME_MAX, "%s", other ? normal : p->name);
}

static int add_row(struct session *s, const struct access_record_text *r, const char *execution,
		   struct err *e)
{
	const struct package_record *p = &r->package;
	struct store_package row = { .result = p->result, .attempts = 1 };
	char details[DETAILS_MAX];
	struct json j;
	bool is_new = false;

	json_init(&j, details, sizeof(details));
	write_details(&j, r);
	memcpy(row.tenant, session_row(s)->tenant, sizeof(row.tenant));
	memcpy(row.session, session_row(s)->id, sizeof(row.session));
	memcpy(row.ecosystem, p->ecosystem, sizeof(row.ecosystem));
	memcpy(row.registry, p->registry, sizeof(row.registry));
	name_row(p, row.name);
	memcpy(row.version, p->result == PACKAGE_RESULT_HIDDEN ? p->newest_hidden : p->version,
	       sizeof(row.version));
	(void)snprintf(row.execution, sizeof(row.execution), "%s", execution);
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
	return bound(s, e);
}

/* A registry that says something else than before: an event, beside the record. A session has few
 * of them, however often it asks. */
static int raise_alarm(struct session *s, const struct package_record *p, struct err *e)
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

int net_package_take(struct session *s, const struct access_record_text *r, const char *execution,
		     struct err *e)
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
	if (raise_alarm(s, p, e) < 0)
		return -1;
	if (store_package_sum_add(core_store(session_core(s)), session_row(s)->id, &sum, e) < 0)
		return -1;
	return is_attempt(p) ? add_row(s, r, execution, e) : 0;
}
