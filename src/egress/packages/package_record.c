/* package_record.c - the record of a request for a package: the object `package` of an access
 * record (doc/network.md). Called by package_gate_record(). Names, versions and files are text of
 * the cell or of a registry: bounded and printable by package_request.h, and masked here. */
#include "egress/packages/package_gate_base.h"

#include <stdio.h>
#include <string.h>

#include "egress/control/access_record.h"
#include "egress/gateway/gateway_end.h"
#include "egress/secrets/masked_text.h"
#include "lib/base/clock.h"
#include "lib/json/json.h"

#define TEXT_MAX ((size_t)8192)

/* Was metadata given without some versions? */
static bool package_record_hides(const struct package_gate *g)
{
	return g->result == PACKAGE_RESULT_PASSED && g->request.kind == PACKAGE_META &&
	       g->hidden > 0;
}

/* In the words of a reason, for a request that has none of its own. */
static void explain_hidden(const struct package_gate *g, char ret[POLICY_REASON_MAX])
{
	(void)snprintf(ret, POLICY_REASON_MAX, "%zu %s%s hidden, newest %.40s: %s", g->hidden,
		       g->request.ecosystem == ECO_PYPI ? "file" : "version",
		       g->hidden == 1 ? "" : "s", g->newest_hidden, g->hidden_reason);
}

/* The default port is left out, as users write registries. */
static void write_registry(struct json *j, const struct package_gate *g)
{
	char text[PACKAGE_REGISTRY_MAX] = "";
	const struct package_registry *r = g->registry;

	if (r != NULL && r->host.port != 0)
		(void)snprintf(text, sizeof(text), "%s:%u%s", r->host.name, r->host.port,
			       strcmp(r->path, "/") == 0 ? "" : r->path);
	else if (r != NULL)
		(void)snprintf(text, sizeof(text), "%s%s", r->host.name,
			       strcmp(r->path, "/") == 0 ? "" : r->path);
	json_text(j, "registry", text);
	if (r == NULL)
		json_bool(j, "direct", true);
}

/* A version that a page of egress made up is not the program's, so it is not recorded. */
static void write_names(struct json *j, const struct package_gate *g)
{
	const struct mask *m = secrets_mask(g->x->session->secrets);
	const struct package_request *q = &g->request;

	json_text(j, "ecosystem", ecosystem_name(q->ecosystem));
	write_registry(j, g);
	masked_text(j, m, "name", q->written[0] != '\0' ? q->written : q->name);
	if (q->version[0] != '\0' && !package_gate_is_invented(g))
		masked_text(j, m, "version", q->version);
	if (q->file[0] != '\0' && !package_gate_is_invented(g))
		masked_text(j, m, "file", q->file);
	json_text(j, "kind", package_kind_name(q->kind));
}

/* Names in the order of enum package_origin. */
static const char *origin_name(const struct package_gate *g)
{
	static const char *const names[] = { "none", "index",	      "pin",
					     "name", "checksum_file", "sumdb" };

	return names[g->expected.alg == DIGEST_NONE && g->origin != PACKAGE_BY_PIN ? 0 : g->origin];
}

static void write_facts(struct json *j, const struct package_gate *g)
{
	uint64_t now = clock_wall_ms();
	char text[DIGEST_TEXT_MAX];

	if (g->checksum.alg != DIGEST_NONE) {
		digest_write(&g->checksum, text);
		json_text(j, "checksum", text);
	}
	if (g->request.kind == PACKAGE_FILE || package_gate_is_checked(g)) {
		json_text(j, "expected", origin_name(g));
		if (g->expected.alg != DIGEST_NONE)
			json_text(j, "algorithm", digest_alg_name(g->expected.alg));
		json_bool(j, "verified", g->verified);
		json_text(j, "install_code",
			  install_code_name(g->has_facts ? g->facts.install_code
							 : INSTALL_CODE_UNKNOWN));
	}
	if (!g->has_facts || !g->facts.has_time)
		return;
	json_uint(j, "released_at", g->facts.time_ms);
	json_uint(j, "age_s", now > g->facts.time_ms ? (now - g->facts.time_ms) / 1000 : 0);
}

static void write_package(struct json *j, const struct package_gate *g)
{
	json_open(j, NULL, '{');
	write_names(j, g);
	json_text(j, "result",
		  package_result_name(package_record_hides(g) ? PACKAGE_RESULT_HIDDEN : g->result));
	write_facts(j, g);
	json_text(j, "cache", package_cached_name(g->cached));
	if (g->changed)
		json_bool(j, "changed", true);
	if (g->backdated)
		json_bool(j, "backdated", true);
	if (g->request.kind == PACKAGE_META) {
		json_open(j, "shaped", '{');
		json_uint(j, "hidden", g->hidden);
		if (g->hidden > 0)
			masked_text(j, secrets_mask(g->x->session->secrets), "newest_hidden",
				    g->newest_hidden);
		json_close(j, '}');
	}
	json_close(j, '}');
}

/* Reads of metadata are frequent. They are recorded only if something was hidden or is unusual. */
static bool is_worth_a_record(const struct package_gate *g)
{
	if (g->result != PACKAGE_RESULT_PASSED)
		return true;
	switch (g->request.kind) {
	case PACKAGE_FILE:
	case PACKAGE_PUBLISH:
	case PACKAGE_SEARCH:
	case PACKAGE_AUDIT:
		return true;
	case PACKAGE_META:
		return g->hidden > 0 || g->cached == PACKAGE_CACHE_STALE || g->backdated;
	case PACKAGE_INDEX:
	case PACKAGE_FILEMETA:
	case PACKAGE_AUTH:
	case PACKAGE_KEY:
	case PACKAGE_OTHER:
	case PACKAGE_KINDS:
		break;
	}
	return false;
}

/* Facts that the gate could not see at the time of the request. */
static void package_record_settle(struct package_gate *g)
{
	const struct gateway *x = g->x;

	if (g->result == PACKAGE_RESULT_DOWNLOADED && g->cached == PACKAGE_CACHE_HIT &&
	    x->status == 200 && x->r.method == HTTP1_GET && x->budget.sent < g->bytes)
		g->result = PACKAGE_RESULT_CUT;
	/* a HEAD, a 304, a part of the file */
	if (g->result == PACKAGE_RESULT_DOWNLOADED &&
	    (x->r.method == HTTP1_HEAD || x->status != 200)) {
		g->result = PACKAGE_RESULT_PASSED;
		g->verified = false;
	}
	if (!x->allowed && g->result != PACKAGE_RESULT_HASH_MISMATCH &&
	    g->result != PACKAGE_RESULT_CUT)
		g->result = PACKAGE_RESULT_REFUSED;
	if (g->result == PACKAGE_RESULT_PASSED && !x->answered && x->status == 0)
		g->result = PACKAGE_RESULT_CUT;
}

/* A record too long for its bound is counted as lost. */
void package_gate_record(struct gateway *x)
{
	struct package_gate *g = x->package;
	char why[POLICY_REASON_MAX];
	struct json j;
	struct policy_rule rule = { .name = g->rule, .class = POLICY_PACKAGES };
	struct access_record r = { .kind = ACCESS_RECORD_PACKAGE,
				   .start_ns = x->start_ns,
				   .owner = &x->flow->owner,
				   .name = x->endpoint.host[0] != '\0' ? x->endpoint.host : NULL,
				   .port = x->endpoint.port,
				   .scheme = x->tls ? "https" : "http",
				   .allowed =
					   x->allowed && g->result != PACKAGE_RESULT_HASH_MISMATCH,
				   .rule = g->rule[0] != '\0' ? &rule : NULL,
				   .reason = x->reason,
				   .asked = g->path != NULL ? g->path : x->path,
				   .status = x->status,
				   .bytes_in = x->budget.sent };

	package_record_settle(g);
	if (!is_worth_a_record(g))
		return;
	if (package_record_hides(g) && x->reason[0] == '\0') {
		explain_hidden(g, why);
		r.reason = why;
	}
	json_init_heap(&j, TEXT_MAX);
	write_package(&j, g);
	if (json_ok(&j)) {
		r.package = j.text;
		access_record_send(x->session, &r);
	} else {
		x->session->records_lost++;
	}
	json_release(&j);
}
