#include "attempt.h"

#include <assert.h>
#include <stdio.h>

#include "channel_c.h"
#include "clock.h"
#include "json.h"
#include "secrets.h"

static const char *const kinds[] = { "dns", "connect", "request" };
static_assert(COUNT(kinds) == ATTEMPT_KINDS, "every kind has a name");

static void write_where(struct json *j, const struct attempt *r)
{
	char text[IP_TEXT_MAX];

	if (r->name != NULL)
		json_text(j, "name", r->name);
	if (r->ip != NULL) {
		ip_format(r->ip, text);
		json_text(j, "address", text);
	}
	if (r->port != 0)
		json_uint(j, "port", r->port);
	if (r->scheme != NULL)
		json_text(j, "scheme", r->scheme);
	if (r->tls != NULL)
		json_text(j, "tls", r->tls);
}

static void write_request(struct json *j, const struct attempt *r)
{
	if (r->qtype != NULL)
		json_text(j, "type", r->qtype);
	if (r->method != NULL)
		json_text(j, "method", r->method);
	if (r->path != NULL)
		json_text(j, "path", r->path);
	if (r->query != NULL)
		json_text(j, "query", r->query);
	if (r->proxied)
		json_bool(j, "proxied", true);
}

static void write_verdict(struct json *j, const struct attempt *r)
{
	json_text(j, "verdict", r->allowed ? "allow" : "deny");
	if (r->rule != NULL) {
		json_text(j, "rule", r->rule->name);
		json_text(j, "class", policy_class_name(r->rule->class));
	}
	if (r->reason != NULL && r->reason[0] != '\0')
		json_text(j, "reason", r->reason);
	if (r->secrets != NULL && r->secrets[0] != '\0')
		json_text(j, "secrets", r->secrets);
}

static void write_outcome(struct json *j, const struct guest *g, const struct attempt *r)
{
	uint64_t now = clock_now_ns();

	if (r->status != 0)
		json_int(j, "status", r->status);
	json_uint(j, "bytes_out", r->bytes_out);
	json_uint(j, "bytes_in", r->bytes_in);
	if (r->frames_out + r->frames_in > 0) {
		json_uint(j, "frames_out", r->frames_out);
		json_uint(j, "frames_in", r->frames_in);
	}
	json_uint(j, "us", now > r->start_ns ? (now - r->start_ns) / 1000 : 0);
	if (r->masked > 0)
		json_uint(j, "masked", r->masked);
	if (r->model != NULL)
		json_raw(j, "model", r->model);
	if (g->records_lost > 0)
		json_uint(j, "lost_before", g->records_lost);
}

/* false: it does not fit. */
static bool compose(struct json *j, const struct guest *g, const struct attempt *r)
{
	uint64_t since = clock_now_ns() - r->start_ns;

	json_open(j, NULL, '{');
	json_uint(j, "time_ms", clock_wall_ms() - since / CLOCK_MS);
	json_text(j, "kind", kinds[r->kind]);
	write_where(j, r);
	write_request(j, r);
	write_verdict(j, r);
	write_outcome(j, g, r);
	json_close(j, '}');
	return json_ok(j);
}

/* What a cell asked for may be long; what matters of it is how it begins. */
static bool compose_short(struct json *j, const struct guest *g, const struct attempt *r)
{
	struct attempt brief = *r;
	char path[1024];

	(void)snprintf(path, sizeof(path), "%.1000s", r->path == NULL ? "" : r->path);
	brief.path = r->path == NULL ? NULL : path;
	brief.query = r->query == NULL ? NULL : "(too long)";
	brief.model = NULL;
	return compose(j, g, &brief);
}

void attempt_send(struct guest *g, const struct attempt *r)
{
	const struct mask *mask = secrets_mask(g->secrets);
	struct json j;
	bool whole;

	json_init_heap(&j, r->model != NULL ? EGRESS_PROMPT_MAX : EGRESS_RECORD_MAX);
	whole = compose(&j, g, r);
	if (!whole) {
		json_release(&j);
		json_init_heap(&j, EGRESS_RECORD_MAX);
		whole = compose_short(&j, g, r);
	}
	if (mask != NULL)
		(void)mask_text(mask, NULL, (uint8_t *)j.text, j.len);
	if (whole && channel_c_record(g->egress->channel, g, j.text, j.len))
		g->records_lost = 0;
	else
		g->records_lost++;
	json_release(&j);
}
