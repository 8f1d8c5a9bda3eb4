/* export_item.c - see export_item.h. Everything that the three kinds of receivers need in the
 * same form: ids, severities, a sentence for people, and a line of JSON. Pure, so a record that
 * is exported twice looks the same. */
#include "cmd/client/export_item.h"

#include <stdio.h>
#include <string.h>

#include "cmd/client/member.h"
#include "lib/base/hex.h"
#include "lib/base/sha256.h"
#include "lib/base/str.h"

/* ---- names and severities. An item exported twice must look the same, so that a receiver can
 * drop the second one. So ids are hashes of the things' own ids, and nothing here depends on the
 * time of the export. */

#define INFO 9
#define WARN 13
#define ERROR 17

/* The first eight bytes of a hash over the kind and the id. The label keeps these hashes apart
 * from others over the same id. */
void export_span_of(const char *kind, const char *key, char ret[EXPORT_SPAN_MAX])
{
	static const char label[] = "cordon-span"; /* hashed with its zero byte */
	uint8_t hash[SHA256_SIZE];
	struct sha256 s;

	sha256_init(&s);
	sha256_add(&s, label, sizeof(label));
	sha256_add(&s, kind, strlen(kind) + 1);
	sha256_add(&s, key, strlen(key));
	sha256_end(&s, hash);
	hash[0] |= 1; /* zeros only are no id */
	hex_encode(hash, 8, ret);
}

/* A traceparent of the client joins the session to the client's own trace. Without one the
 * session begins a trace, whose id is a hash of the session's id. */
void export_trace_of(const char *session, const char *traceparent, struct export_trace *ret)
{
	char given[TRACEPARENT_MAX];
	uint8_t hash[SHA256_SIZE];

	*ret = (struct export_trace){ 0 };
	export_span_of("session", session, ret->span);
	if (traceparent != NULL && traceparent_read(traceparent, strlen(traceparent), given)) {
		memcpy(ret->id, given + 3, 32);
		memcpy(ret->parent, given + 36, 16);
		return;
	}
	sha256_of(session, strlen(session), hash);
	hash[0] |= 1;
	hex_encode(hash, 16, ret->id);
}

uint64_t export_time_ms(const struct export_item *i)
{
	int64_t ms = member_time(i->record, "time");

	return ms < 0 ? 0 : (uint64_t)ms;
}

/* Network records have no type of their own, so their kind gets a prefix. */
void export_type(const struct export_item *i, char *ret, size_t cap)
{
	if (i->kind == EXPORT_AUDIT)
		(void)snprintf(ret, cap, "%s", member_text(i->record, "type", "unknown"));
	else
		(void)snprintf(ret, cap, "network.%s", member_text(i->record, "kind", "unknown"));
}

/* Alarms carry their severity in their data. 0: the record has none. */
static int severity_of_word(const char *word)
{
	return strcmp(word, "alarm") == 0 ? ERROR : strcmp(word, "warning") == 0 ? WARN : 0;
}

/* The first rule whose beginning fits. Types without a rule are informative, so new types need
 * no change here. */
static int severity_of_type(const char *type)
{
	static const struct {
		const char *begin;
		int severity;
	} rules[] = {
		{ "alarm.", ERROR },
		{ "audit.fork", ERROR },
		{ "audit.gap", ERROR },
		{ "audit.rollback", ERROR },
		{ "execution.limit", WARN },
		{ "mcp.tools_changed", ERROR },
		{ "package.backdated", ERROR },
		{ "package.changed", ERROR },
		{ "session.guest", WARN },
		{ "session.storage_full", WARN },
		{ "template.pull_failed", WARN },
	};

	for (size_t i = 0; i < COUNT(rules); i++)
		if (strncmp(type, rules[i].begin, strlen(rules[i].begin)) == 0)
			return rules[i].severity;
	return INFO;
}

/* The order: a refusal of the network policy, the record's own word, a bad end, and then the
 * type. */
int export_severity(const struct export_item *i)
{
	const json_t *data = member_group(i->record, "data");
	const char *state = member_text(data, "state", "");
	int said = severity_of_word(member_text(data, "severity", ""));

	if (i->kind == EXPORT_NETWORK)
		return strcmp(member_text(i->record, "verdict", ""), "deny") == 0 ? WARN : INFO;
	if (said != 0)
		return said;
	if (strcmp(state, "killed") == 0 || strcmp(state, "failed") == 0)
		return WARN;
	return severity_of_type(member_text(i->record, "type", ""));
}

/* ---- a sentence
 *
 * A sentence is for people who read logs. It is cut at the end of a whole character, and nothing
 * parses it. */

struct sentence {
	char *text;
	size_t cap, n;
};

static void sentence_put(struct sentence *s, const char *text)
{
	size_t left = s->cap - s->n, len = strlen(text);

	if (len >= left)
		len = left - 1;
	/* A cut leaves no part of a character. */
	while (len > 0 && text[len] != '\0' && ((unsigned char)text[len] & 0xc0) == 0x80)
		len--;
	memcpy(s->text + s->n, text, len);
	s->n += len;
	s->text[s->n] = '\0';
}

/* Objects and lists inside become "...": the whole record stands beside the sentence. */
static void sentence_value(struct sentence *s, const json_t *v)
{
	char number[32];

	if (json_is_string(v)) {
		sentence_put(s, json_string_value(v));
	} else if (json_is_integer(v)) {
		(void)snprintf(number, sizeof(number), "%lld", (long long)json_integer_value(v));
		sentence_put(s, number);
	} else {
		sentence_put(s, json_is_true(v) ? "true" : json_is_false(v) ? "false" : "...");
	}
}

static void sentence_data(struct sentence *s, const json_t *data)
{
	const char *name;
	json_t *v;

	json_object_foreach((json_t *)(uintptr_t)data, name, v)
	{
		if (json_is_string(v) && json_string_length(v) == 0)
			continue;
		sentence_put(s, " ");
		sentence_put(s, name);
		sentence_put(s, "=");
		sentence_value(s, v);
	}
}

/* "network.request deny: GET example.org: reason". */
static void sentence_network(struct sentence *s, const json_t *r)
{
	const char *reason = member_text(r, "reason", ""), *name = member_text(r, "name", NULL);

	sentence_put(s, " ");
	sentence_put(s, member_text(r, "verdict", "?"));
	sentence_put(s, ": ");
	if (json_is_string(json_object_get(r, "method"))) {
		sentence_put(s, member_text(r, "method", ""));
		sentence_put(s, " ");
	}
	sentence_put(s, name == NULL ? member_text(r, "address", "?") : name);
	if (reason[0] != '\0') {
		sentence_put(s, ": ");
		sentence_put(s, reason);
	}
}

void export_sentence(const struct export_item *i, char *ret, size_t cap)
{
	struct sentence s = { .text = ret, .cap = cap };
	char type[64];

	ret[0] = '\0';
	export_type(i, type, sizeof(type));
	sentence_put(&s, type);
	if (i->kind == EXPORT_AUDIT)
		sentence_data(&s, member_group(i->record, "data"));
	else
		sentence_network(&s, i->record);
}

/* ---- a line */

static int line_add(json_t *line, const char *name, const char *text)
{
	return text[0] == '\0' ? 0 : json_object_set_new(line, name, json_string(text));
}

/* The form of files and syslog. Members that name the item come first, so that a cut line can be
 * found again in the server. */
json_t *export_line(const struct export_item *i, bool whole)
{
	json_t *line = json_object();
	int bad = line == NULL;
	char type[64];

	export_type(i, type, sizeof(type));
	bad = bad || line_add(line, "source", i->kind == EXPORT_AUDIT ? "audit" : "network") < 0 ||
	      line_add(line, "origin", i->origin) < 0 ||
	      json_object_set_new(line, "seq", json_integer((json_int_t)i->seq)) < 0 ||
	      line_add(line, "type", type) < 0 || line_add(line, "trace_id", i->trace.id) < 0;
	if (whole) {
		bad = bad || json_object_set(line, "record", (json_t *)(uintptr_t)i->record) < 0 ||
		      (i->side != NULL &&
		       json_object_set(line, "side", (json_t *)(uintptr_t)i->side) < 0);
	} else {
		bad = bad || line_add(line, "time", member_text(i->record, "time", "")) < 0 ||
		      json_object_set_new(line, "cut", json_true()) < 0;
	}
	if (!bad)
		return line;
	json_decref(line);
	return NULL;
}
