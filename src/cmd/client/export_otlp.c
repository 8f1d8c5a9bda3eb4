/* export_otlp.c - values, requests and log records. export_spans.c has spans, export_metrics.c
 * metrics.
 *
 * An item becomes a log record if it is a record of the audit log or a refusal of the network
 * policy. Each has the ids of the span it belongs to: its execution's, else its session's. */
#include "cmd/client/export_otlp.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cmd/client/member.h"
#include "lib/base/str.h"

#define DEPTH_MAX 6
#define KEY_MAX 128
#define WAIT_MAX_MS 3600000

/* ---- values
 *
 * Values of JSON in OTLP's typed form. Texts are cut at EXPORT_TEXT_MAX and depth at DEPTH_MAX,
 * because receivers refuse larger ones, and records come from tenants. */

/* Cut at a whole character, since jansson refuses the rest of one. */
static json_t *export_text(const char *text, size_t len)
{
	size_t n = len < EXPORT_TEXT_MAX ? len : EXPORT_TEXT_MAX;

	while (n > 0 && n < len && ((unsigned char)text[n] & 0xc0) == 0x80)
		n--;
	return json_stringn(text, n);
}

static json_t *export_decimal(int64_t n)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%" PRId64, n);
	return json_string(text);
}

/* Milliseconds get six zeros as text, so no number overflows. */
json_t *export_nano(uint64_t ms)
{
	char text[32];

	(void)snprintf(text, sizeof(text), ms == 0 ? "0" : "%" PRIu64 "000000", ms);
	return json_string(text);
}

static json_t *any_value(const json_t *v, unsigned depth);

/* A list that does not fit into memory is dropped as a whole, and the export fails then. */
static json_t *any_list(const json_t *v, unsigned depth)
{
	json_t *list = json_array();
	size_t at;
	json_t *one;

	json_array_foreach(v, at,
			   one) if (list == NULL ||
				    json_array_append_new(list, any_value(one, depth + 1)) < 0)
	{
		json_decref(list);
		return NULL;
	}
	return json_pack("{s:{s:o}}", "arrayValue", "values", list);
}

static json_t *any_object(const json_t *v, unsigned depth)
{
	json_t *list = json_array(), *one;
	const char *name;

	json_object_foreach((json_t *)(uintptr_t)v, name, one)
	{
		json_t *value = any_value(one, depth + 1);

		if (list == NULL || value == NULL ||
		    json_array_append_new(
			    list, json_pack("{s:s,s:O}", "key", name, "value", value)) < 0) {
			json_decref(value);
			json_decref(list);
			return NULL;
		}
		json_decref(value);
	}
	return json_pack("{s:{s:o}}", "kvlistValue", "values", list);
}

/* null is an empty value. A number that is not whole becomes a double. */
static json_t *any_value(const json_t *v, unsigned depth)
{
	if (depth > DEPTH_MAX)
		return json_pack("{s:s}", "stringValue", "...");
	switch (json_typeof(v)) {
	case JSON_STRING:
		return json_pack("{s:o}", "stringValue",
				 export_text(json_string_value(v), json_string_length(v)));
	case JSON_INTEGER:
		return json_pack("{s:o}", "intValue", export_decimal(json_integer_value(v)));
	case JSON_REAL:
		return json_pack("{s:f}", "doubleValue", json_real_value(v));
	case JSON_TRUE:
	case JSON_FALSE:
		return json_pack("{s:b}", "boolValue", json_is_true(v));
	case JSON_ARRAY:
		return any_list(v, depth);
	case JSON_OBJECT:
		return any_object(v, depth);
	case JSON_NULL:
	default:
		return json_object();
	}
}

json_t *export_any_value(const json_t *v)
{
	return any_value(v, 0);
}

/* Take value over. -1: no memory, or value was NULL. */
static int attribute_add(json_t *list, const char *key, json_t *value)
{
	return value == NULL ? -1
			     : json_array_append_new(
				       list, json_pack("{s:s,s:o}", "key", key, "value", value));
}

int export_attribute_text(json_t *list, const char *key, const char *text)
{
	if (text == NULL || text[0] == '\0')
		return 0;
	return attribute_add(list, key,
			     json_pack("{s:o}", "stringValue", export_text(text, strlen(text))));
}

int export_attribute_number(json_t *list, const char *key, int64_t n)
{
	return attribute_add(list, key, json_pack("{s:o}", "intValue", export_decimal(n)));
}

/* Empty members are left out, as in the other attributes. */
int export_attribute_json(json_t *list, const char *prefix, const char *name, const json_t *v)
{
	char key[KEY_MAX];

	if (v == NULL || json_is_null(v) || (json_is_string(v) && json_string_length(v) == 0))
		return 0;
	(void)snprintf(key, sizeof(key), "%s%s", prefix, name);
	return attribute_add(list, key, export_any_value(v));
}

/* ---- requests
 *
 * Each request has the resource (which node, which tenant) once, and all items of a batch below
 * it. */

static json_t *export_otlp_resource(const struct export_node *node)
{
	const char *end = strchr(node->origin, '/');
	char name[EXPORT_ORIGIN_MAX];
	json_t *list = json_array();

	(void)snprintf(name, sizeof(name), "%.*s",
		       (int)(end == NULL ? strlen(node->origin) : (size_t)(end - node->origin)),
		       node->origin);
	if (list == NULL || export_attribute_text(list, "service.name", "cordon") < 0 ||
	    export_attribute_text(list, "service.version", node->version) < 0 ||
	    export_attribute_text(list, "service.instance.id", name) < 0 ||
	    export_attribute_text(list, "cordon.tenant.id", node->tenant) < 0) {
		json_decref(list);
		return NULL;
	}
	return json_pack("{s:o}", "attributes", list);
}

/* Take list over in every case. NULL: no memory. */
json_t *export_otlp_wrap(const struct export_node *node, const char *all, const char *scopes,
			 const char *member, json_t *list)
{
	json_t *of = export_otlp_resource(node);

	if (list == NULL || of == NULL) {
		json_decref(list);
		json_decref(of);
		return NULL;
	}
	return json_pack("{s:[{s:o,s:[{s:{s:s,s:s},s:o}]}]}", all, "resource", of, scopes, "scope",
			 "name", "cordon", "version", node->version, member, list);
}

/* ---- log records
 *
 * A log record has the fields that queries use as attributes, and the rest of the data under a
 * prefix, so that no name of a tenant can take the place of ours. */

/* The client's address and request are those that the server saw. */
static int log_actor(json_t *list, const json_t *actor)
{
	return export_attribute_text(list, "cordon.actor.key", member_text(actor, "key", "")) < 0 ||
			       export_attribute_text(list, "cordon.actor.interface",
						     member_text(actor, "interface", "")) < 0 ||
			       export_attribute_text(list, "cordon.request.id",
						     member_text(actor, "request", "")) < 0 ||
			       export_attribute_text(list, "client.address",
						     member_text(actor, "address", "")) < 0
		       ? -1
		       : 0;
}

static int log_members(json_t *list, const char *prefix, const json_t *object)
{
	const char *name;
	json_t *v;

	json_object_foreach((json_t *)(uintptr_t)object, name,
			    v) if (export_attribute_json(list, prefix, name, v) < 0) return -1;
	return 0;
}

/* Values behind commitments, if they are to be exported. */
static int log_side(json_t *list, const json_t *side)
{
	const char *name;
	json_t *v;

	if (side == NULL)
		return 0;
	json_object_foreach((json_t *)(uintptr_t)side, name,
			    v) if (export_attribute_json(list, "cordon.value.", name,
							 json_object_get(v, "value")) <
				   0) return -1;
	return 0;
}

/* Sealed fields appear as commitments. Their values come only with --values (log_side()). */
static int log_audit(json_t *list, const struct export_item *i)
{
	const json_t *r = i->record;

	return export_attribute_text(list, "cordon.audit.code", member_text(r, "code", "")) < 0 ||
			       export_attribute_text(list, "cordon.session.id",
						     member_text(r, "session", "")) < 0 ||
			       export_attribute_text(list, "cordon.execution.id",
						     member_text(r, "execution", "")) < 0 ||
			       log_actor(list, member_group(r, "actor")) < 0 ||
			       log_members(list, "cordon.data.", member_group(r, "data")) < 0 ||
			       log_members(list, "cordon.sealed.", member_group(r, "sealed")) < 0 ||
			       log_side(list, i->side) < 0
		       ? -1
		       : 0;
}

/* The address of a refused connection is in the body's sentence, too. */
static int log_network(json_t *list, const json_t *r)
{
	return export_attribute_text(list, "cordon.session.id", member_text(r, "session_id", "")) <
				       0 ||
			       export_attribute_text(list, "cordon.execution.id",
						     member_text(r, "execution_id", "")) < 0 ||
			       export_attribute_text(list, "cordon.verdict",
						     member_text(r, "verdict", "")) < 0 ||
			       export_attribute_text(list, "cordon.rule",
						     member_text(r, "rule", "")) < 0 ||
			       export_attribute_text(list, "cordon.reason",
						     member_text(r, "reason", "")) < 0 ||
			       export_attribute_text(list, "server.address",
						     member_text(r, "name", "")) < 0
		       ? -1
		       : 0;
}

static json_t *log_attributes(const struct export_item *i)
{
	json_t *list = json_array();

	bool audit = i->kind == EXPORT_AUDIT;

	if (list != NULL &&
	    export_attribute_text(list, audit ? "cordon.audit.origin" : "cordon.network.origin",
				  i->origin) == 0 &&
	    export_attribute_number(list, audit ? "cordon.audit.seq" : "cordon.network.seq",
				    (int64_t)i->seq) == 0 &&
	    (audit ? log_audit(list, i) : log_network(list, i->record)) == 0)
		return list;
	json_decref(list);
	return NULL;
}

/* The span that a record was written in: that of its execution, or its session's. */
static void log_span(const struct export_item *i, char ret[EXPORT_SPAN_MAX])
{
	const char *execution =
		member_text(i->record, i->kind == EXPORT_AUDIT ? "execution" : "execution_id", "");

	if (execution[0] != '\0')
		export_span_of("execution", execution, ret);
	else
		memcpy(ret, i->trace.span, EXPORT_SPAN_MAX);
}

/* The record has the ids of its trace if it belongs to a session. Others stand alone. */
static json_t *log_record(const struct export_item *i, uint64_t now_ms)
{
	int severity = export_severity(i);
	char type[64], text[512], span[EXPORT_SPAN_MAX];
	json_t *attributes = log_attributes(i), *r;

	if (attributes == NULL)
		return NULL;
	export_type(i, type, sizeof(type));
	export_sentence(i, text, sizeof(text));
	r = json_pack("{s:o,s:o,s:i,s:s,s:s,s:{s:s},s:o}", "timeUnixNano",
		      export_nano(export_time_ms(i)), "observedTimeUnixNano", export_nano(now_ms),
		      "severityNumber", severity, "severityText",
		      severity >= 17   ? "ERROR"
		      : severity >= 13 ? "WARN"
				       : "INFO",
		      "eventName", type, "body", "stringValue", text, "attributes", attributes);
	if (r == NULL || i->trace.id[0] == '\0')
		return r;
	log_span(i, span);
	if (json_object_set_new(r, "traceId", json_string(i->trace.id)) == 0 &&
	    json_object_set_new(r, "spanId", json_string(span)) == 0)
		return r;
	json_decref(r);
	return NULL;
}

/* Every record of the audit log, and network records that say no. */
static bool is_log(const struct export_item *i)
{
	return i->kind == EXPORT_AUDIT ||
	       strcmp(member_text(i->record, "verdict", ""), "deny") == 0;
}

/* Items that are no log are skipped. *ret_n is 0 then, and nothing is sent. */
json_t *export_otlp_logs(const struct export_node *node, const struct export_item *items, size_t n,
			 uint64_t now_ms, size_t *ret_n)
{
	json_t *list = json_array();

	*ret_n = 0;
	for (size_t i = 0; list != NULL && i < n; i++) {
		if (!is_log(&items[i]))
			continue;
		if (json_array_append_new(list, log_record(&items[i], now_ms)) < 0) {
			json_decref(list);
			list = NULL;
		}
		++*ret_n;
	}
	return export_otlp_wrap(node, "resourceLogs", "scopeLogs", "logRecords", list);
}

/* NULL with `none` is the usual case. NULL without it is a lack of memory, which
 * json_array_append_new() turns into an error. */
json_t *export_otlp_traces(const struct export_node *node, const struct export_item *items,
			   size_t n, size_t *ret_n)
{
	json_t *list = json_array();

	*ret_n = 0;
	for (size_t i = 0; list != NULL && i < n; i++) {
		bool none;
		json_t *span = export_span(&items[i], &none);

		if (none)
			continue;
		if (json_array_append_new(list, span) < 0) {
			json_decref(list);
			list = NULL;
		}
		++*ret_n;
	}
	return export_otlp_wrap(node, "resourceSpans", "scopeSpans", "spans", list);
}

/* ---- answers
 *
 * Both forms of HTTP. A date in the past is 0. A text of neither form gives the longest wait. */

uint64_t export_retry_after(const char *text, uint64_t now_ms)
{
	size_t digits = strspn(text, "0123456789");
	uint64_t wait = 0;
	struct tm tm = { 0 };

	if (digits > 0 && digits < 10 && text[digits] == '\0') {
		wait = (uint64_t)strtoull(text, NULL, 10) * 1000;
	} else if (digits == 0) {
		const char *end = strptime(text, "%a, %d %b %Y %H:%M:%S GMT", &tm);
		time_t at = end != NULL && *end == '\0' ? timegm(&tm) : 0;

		wait = at > 0 && (uint64_t)at * 1000 > now_ms ? (uint64_t)at * 1000 - now_ms : 0;
	} else {
		wait = WAIT_MAX_MS; /* more digits than a time needs */
	}
	return wait > WAIT_MAX_MS ? WAIT_MAX_MS : wait;
}
