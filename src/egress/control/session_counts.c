#include "egress/control/session_counts.h"

#include <string.h>

#include "lib/json/json.h"

#define RULES_EACH 63 /* in one message, beside that of packages */

static void session_counts_begin(struct json *j, char *text, size_t cap,
				 const struct egress_session *session)
{
	json_init(j, text, cap);
	json_open(j, NULL, '{');
	json_uint(j, "bytes_in", session->counts.bytes_in);
	json_uint(j, "bytes_out", session->counts.bytes_out);
	json_uint(j, "requests", session->counts.requests);
	json_uint(j, "connections", session->counts.connections);
	json_uint(j, "claimed_in", session->used.own.claimed[LIMIT_IN]);
	json_uint(j, "claimed_out", session->used.own.claimed[LIMIT_OUT]);
	json_open(j, "rules", '[');
}

static void add_rule(struct json *j, const struct limit_usage *u)
{
	json_open(j, NULL, '{');
	json_text(j, "rule", u->rule);
	json_uint(j, "claimed_in", u->claimed[LIMIT_IN]);
	json_uint(j, "claimed_out", u->claimed[LIMIT_OUT]);
	json_close(j, '}');
}

/* A session's use of its package limits is kept like a rule's. */
static void add_packages(struct json *j, const struct package_used *u)
{
	if (u->bytes == 0 && u->new_names == 0)
		return;
	json_open(j, NULL, '{');
	json_text(j, "rule", EGRESS_PACKAGES_RULE);
	json_uint(j, "claimed_in", u->bytes);
	json_uint(j, "claimed_out", u->new_names);
	json_close(j, '}');
}

static bool session_counts_end(struct json *j, struct egress_session *session)
{
	add_packages(j, &session->packages);
	json_close(j, ']');
	json_close(j, '}');
	if (!json_ok(j) ||
	    !control_out_put(&session->egress->out, EGRESS_COUNTS, session->id, j->text, j->len))
		return false;
	session->counts_sent = session->counts;
	session->used.own.unsent = session->used.own.due = false;
	return true;
}

/* Send one message with up to RULES_EACH changed rules from *at on, and advances *at. */
static bool send_some(struct egress_session *session, struct limit_usage **at)
{
	static char text[EGRESS_RECORD_MAX];
	struct limit_usage *first = *at, *u = first;
	struct json j;

	session_counts_begin(&j, text, sizeof(text), session);
	for (size_t n = 0; u != NULL && n < RULES_EACH; u = u->next) {
		if (!u->unsent)
			continue;
		add_rule(&j, u);
		n++;
	}
	if (!session_counts_end(&j, session))
		return false;
	for (; first != u; first = first->next)
		first->unsent = first->due = false;
	*at = u;
	return true;
}

void session_counts_send(struct egress_session *session)
{
	struct limit_usage *at = session->used.unsent ? session->used.rules : NULL;

	if (memcmp(&session->counts, &session->counts_sent, sizeof(session->counts)) == 0 &&
	    !session->used.own.unsent && !session->used.unsent)
		return;
	do {
		if (!send_some(session, &at))
			return;
	} while (at != NULL);
	session->used.unsent = false;
}

void session_counts_send_all(struct egress_session *session)
{
	session->used.own.unsent = true;
	for (struct limit_usage *u = session->used.rules; u != NULL; u = u->next) {
		u->unsent = u->unsent || u->claimed[LIMIT_OUT] > 0 || u->claimed[LIMIT_IN] > 0;
		session->used.unsent = session->used.unsent || u->unsent;
	}
	session_counts_send(session);
}

void session_counts_claim(struct egress_session *session, struct limit_usage *of_rule)
{
	char text[1024];
	struct json j;

	session_counts_begin(&j, text, sizeof(text), session);
	if (of_rule != NULL && of_rule->unsent)
		add_rule(&j, of_rule);
	if (!session_counts_end(&j, session))
		return; /* it stays due */
	if (of_rule != NULL)
		of_rule->unsent = of_rule->due = false;
	channel_send_now(&session->egress->out.channel);
}

/* ---- restoring */

static uint64_t session_counts_number(const json_t *from, const char *name)
{
	json_int_t n = json_integer_value(json_object_get(from, name));

	return n > 0 ? (uint64_t)n : 0;
}

static void raise_to(uint64_t *count, uint64_t given)
{
	if (*count < given)
		*count = given;
}

void session_counts_restore(struct egress_session *session, const json_t *used)
{
	const json_t *rules = json_object_get(used, "rules");

	raise_to(&session->counts.bytes_in, session_counts_number(used, "bytes_in"));
	raise_to(&session->counts.bytes_out, session_counts_number(used, "bytes_out"));
	raise_to(&session->counts.requests, session_counts_number(used, "requests"));
	limit_usage_restore(&session->used.own, session_counts_number(used, "claimed_out"),
			    session_counts_number(used, "claimed_in"));
	for (size_t i = 0; i < json_array_size(rules); i++) {
		const json_t *rule = json_array_get(rules, i);
		const char *name = json_string_value(json_object_get(rule, "rule"));
		struct limit_usage *u =
			name == NULL ? NULL : limit_usage_find(&session->used, name);

		if (name != NULL && strcmp(name, EGRESS_PACKAGES_RULE) == 0) {
			raise_to(&session->packages.bytes,
				 session_counts_number(rule, "claimed_in"));
			raise_to(&session->packages.new_names,
				 session_counts_number(rule, "claimed_out"));
			continue;
		}
		if (u != NULL)
			limit_usage_restore(u, session_counts_number(rule, "claimed_out"),
					    session_counts_number(rule, "claimed_in"));
	}
}
