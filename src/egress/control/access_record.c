#include "egress/control/access_record.h"

#include <assert.h>
#include <string.h>

#include "egress/flow/owner_link.h"
#include "egress/secrets/masked_text.h"
#include "egress/secrets/secrets.h"
#include "lib/base/clock.h"
#include "lib/json/json.h"

#define SHORT_MAX 1000 /* bytes of the path, in a record that would be too long */

static const char *const kinds[] = { "dns", "connect", "request", "package", "datagram" };
static_assert(COUNT(kinds) == ACCESS_RECORD_KINDS, "every kind has a name");

static void write_where(struct json *j, const struct mask *m, const struct access_record *r)
{
	char text[IP_TEXT_MAX];

	if (r->name != NULL)
		masked_text(j, m, "name", r->name);
	if (r->ip != NULL) {
		ip_format(r->ip, text);
		masked_text(j, m, "address", text);
	}
	if (r->port != 0)
		json_uint(j, "port", r->port);
	if (r->scheme != NULL)
		json_text(j, "scheme", r->scheme);
	if (r->tls != NULL)
		json_text(j, "tls", r->tls);
}

/* The mark stays between egress and cordond, which stores the execution instead. */
static void write_owner(struct json *j, const struct owner *o)
{
	if (o == NULL)
		return;
	if (o->result == OWNER_FOUND)
		json_uint(j, "mark", o->mark);
	else
		json_text(j, "execution_unknown", owner_result_word(o->result));
}

static void write_request(struct json *j, const struct mask *m, const struct access_record *r)
{
	if (r->qtype != NULL)
		masked_text(j, m, "type", r->qtype);
	if (r->method != NULL)
		masked_text(j, m, "method", r->method);
	if (r->path != NULL)
		masked_text(j, m, "path", r->path);
	if (r->query != NULL)
		masked_text(j, m, "query", r->query);
	if (r->proxied)
		json_bool(j, "proxied", true);
}

static void write_verdict(struct json *j, const struct mask *m, const struct access_record *r)
{
	json_text(j, "verdict", r->allowed ? "allow" : "deny");
	if (r->rule != NULL) {
		masked_text(j, m, "rule", r->rule->name);
		json_text(j, "class", policy_class_name(r->rule->class));
	}
	if (r->reason != NULL && r->reason[0] != '\0') {
		/* A reason has room for a part of a long name or path. */
		const char *const from[MASKED_TEXT_FROM_MAX] = { r->name, r->path, r->query,
								 r->asked };

		masked_text_about(j, m, "reason", r->reason, from);
	}
	if (r->secrets != NULL && r->secrets[0] != '\0')
		masked_text(j, m, "secrets", r->secrets);
}

static void write_outcome(struct json *j, const struct egress_session *session,
			  const struct access_record *r)
{
	uint64_t end = r->end_ns != 0 ? r->end_ns : clock_now_ns();

	if (r->status != 0)
		json_int(j, "status", r->status);
	json_uint(j, "bytes_out", r->bytes_out);
	json_uint(j, "bytes_in", r->bytes_in);
	if (r->frames_out + r->frames_in > 0) {
		json_uint(j, "frames_out", r->frames_out);
		json_uint(j, "frames_in", r->frames_in);
	}
	if (r->datagrams > 0)
		json_uint(j, "datagrams", r->datagrams);
	json_uint(j, "us", end > r->start_ns ? (end - r->start_ns) / 1000 : 0);
	if (r->masked > 0)
		json_uint(j, "masked", r->masked);
	if (r->model != NULL)
		json_raw(j, "model", r->model);
	if (r->package != NULL)
		json_raw(j, "package", r->package);
	if (r->internal)
		json_bool(j, "internal", true);
	if (session->records_lost > 0)
		json_uint(j, "lost_before", session->records_lost);
}

/* False: it does not fit. */
static bool access_record_compose(struct json *j, const struct egress_session *session,
				  const struct access_record *r)
{
	const struct mask *m = secrets_mask(session->secrets);
	uint64_t since = clock_now_ns() - r->start_ns;

	json_open(j, NULL, '{');
	json_uint(j, "time_ms", clock_wall_ms() - since / CLOCK_MS);
	json_text(j, "kind", kinds[r->kind]);
	write_owner(j, session->owners.sock < 0 ? NULL : r->owner);
	write_where(j, m, r);
	write_request(j, m, r);
	write_verdict(j, m, r);
	write_outcome(j, session, r);
	json_close(j, '}');
	return json_ok(j);
}

/* The first SHORT_MAX bytes of a text, masked before it is cut: the mask would not find a part of a
 * secret. NULL: there is no text. */
static char *access_record_beginning(const struct egress_session *session, const char *text)
{
	const struct mask *m = secrets_mask(session->secrets);
	char *copy = text == NULL ? NULL : strdup(text);

	if (copy == NULL)
		return NULL;
	if (m != NULL)
		(void)mask_text(m, NULL, (uint8_t *)copy, strlen(copy));
	copy[strnlen(copy, SHORT_MAX)] = '\0';
	return copy;
}

/* Compose the record without the parts that a cell can make long: query and model call, and most of
 * the path. */
static bool compose_short(struct json *j, const struct egress_session *session,
			  const struct access_record *r)
{
	struct access_record brief = *r;
	OWN_MEM char *path = access_record_beginning(session, r->path);

	brief.path = path;
	brief.asked = r->path != NULL ? r->path : r->asked;
	brief.query = r->query == NULL ? NULL : "(too long)";
	brief.model = NULL;
	return access_record_compose(j, session, &brief);
}

void access_record_send(struct egress_session *session, const struct access_record *r)
{
	struct json j;
	bool whole;

	json_init_heap(&j, r->model != NULL ? EGRESS_PROMPT_MAX : EGRESS_RECORD_MAX);
	whole = access_record_compose(&j, session, r);
	if (!whole) {
		json_release(&j);
		json_init_heap(&j, EGRESS_RECORD_MAX);
		whole = compose_short(&j, session, r);
	}
	if (whole &&
	    control_out_record(&session->egress->out, &session->queued, session->id, j.text, j.len))
		session->records_lost = 0;
	else
		session->records_lost++;
	json_release(&j);
}
