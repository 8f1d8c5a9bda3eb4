/* export_spans.c - spans: a session is a trace, its executions, requests and packages are spans
 * below it. Ids follow from the ids of the things, so that a thing exported twice is one span. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cmd/client/export_metrics.h"
#include "cmd/client/export_otlp.h"
#include "cmd/client/member.h"
#include "lib/base/str.h"

/* OTLP's numbers. */
enum { KIND_INTERNAL = 1, KIND_CLIENT = 3 };
enum { STATUS_UNSET, STATUS_OK, STATUS_ERROR };

#define NS_MS UINT64_C(1000000)

/* A span before it becomes JSON. The makers below fill it in: times, name, status, and
 * attributes that queries use. */
struct export_span {
	char id[EXPORT_SPAN_MAX], parent[EXPORT_SPAN_MAX];
	char name[256];
	int kind, status;
	const char *why; /* of STATUS_ERROR */
	uint64_t start_ns, end_ns;
	json_t *attributes; /* owned */
};

static json_t *span_nano(uint64_t ns)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%" PRIu64, ns);
	return json_string(text);
}

/* Take the attributes over. */
static json_t *span_json(const struct export_span *s, const struct export_item *i)
{
	json_t *r = json_pack("{s:s,s:s,s:s,s:i,s:o,s:o,s:o}", "traceId", i->trace.id, "spanId",
			      s->id, "name", s->name, "kind", s->kind, "startTimeUnixNano",
			      span_nano(s->start_ns), "endTimeUnixNano",
			      span_nano(s->end_ns < s->start_ns ? s->start_ns : s->end_ns),
			      "attributes", s->attributes);
	json_t *status = s->status == STATUS_UNSET ? NULL : json_pack("{s:i}", "code", s->status);

	if (status != NULL && s->why != NULL && s->why[0] != '\0')
		(void)json_object_set_new(status, "message", json_string(s->why));
	if (r != NULL && s->parent[0] != '\0')
		(void)json_object_set_new(r, "parentSpanId", json_string(s->parent));
	if (r != NULL && status != NULL)
		(void)json_object_set_new(r, "status", status);
	else
		json_decref(status);
	return r;
}

/* The name has two words and is cut at a whole character. */
static void span_name(struct export_span *s, const char *first, const char *second)
{
	size_t n;

	(void)snprintf(s->name, sizeof(s->name), "%s%s%s", first, second[0] == '\0' ? "" : " ",
		       second);
	/* No part of a character at a cut. */
	n = strlen(s->name);
	if (n < sizeof(s->name) - 1)
		return;
	while (n > 0 && ((unsigned char)s->name[n - 1] & 0xc0) == 0x80)
		n--;
	if (n > 0 && (unsigned char)s->name[n - 1] >= 0xc0)
		s->name[n - 1] = '\0';
}

#define TEXT(key, object, member) \
	(export_attribute_text(s->attributes, key, member_text(object, member, "")) < 0)
#define VALUE(key, object, member) \
	(export_attribute_json(s->attributes, "", key, json_object_get(object, member)) < 0)

/* ---- sessions */

/* A session becomes a span when it has ended. The start comes from the server's row, else from
 * the duration in the record. Deletion and expiry are usual ends, anything else is an error. */
static int span_of_session(struct export_span *s, const struct export_item *i)
{
	const json_t *data = member_group(i->record, "data"), *session = i->session;
	const char *reason = member_text(data, "reason", "");
	int64_t created = session == NULL ? -1 : member_time(session, "created_at");
	uint64_t end = export_time_ms(i), took = member_number(data, "duration_ms", 0);

	memcpy(s->id, i->trace.span, sizeof(s->id));
	memcpy(s->parent, i->trace.parent, sizeof(s->parent));
	s->kind = KIND_INTERNAL;
	s->end_ns = end * NS_MS;
	s->start_ns = (created >= 0 ? (uint64_t)created : took < end ? end - took : 0) * NS_MS;
	span_name(s, "session", session == NULL ? "" : member_text(session, "template", ""));
	if (reason[0] != '\0' && strcmp(reason, "deleted") != 0 && strcmp(reason, "expired") != 0) {
		s->status = STATUS_ERROR;
		s->why = reason;
	}
	return TEXT("cordon.session.id", i->record, "session") ||
			       TEXT("cordon.session.reason", data, "reason") ||
			       TEXT("cordon.session.cleanup", data, "cleanup") ||
			       VALUE("cordon.session.cpu_us", data, "cpu_us") ||
			       VALUE("cordon.session.memory_peak", data, "memory_peak") ||
			       TEXT("cordon.template", session, "template") ||
			       TEXT("cordon.level", session, "level") ||
			       TEXT("cordon.actor.key", session, "created_by")
		       ? -1
		       : 0;
}

/* ---- executions */

/* An execution that was killed, or ended with another code than 0, is an error. Its command is
 * in the span only if the server keeps the text. */
static int span_of_execution(struct export_span *s, const struct export_item *i)
{
	const json_t *data = member_group(i->record, "data"), *x = i->execution;
	const char *id = member_text(i->record, "execution", ""),
		   *state = member_text(data, "state", "");
	int64_t began = x == NULL ? -1 : member_time(x, "started_at");
	int64_t code = (int64_t)member_number(data, "exit_code", 0);

	export_span_of("execution", id, s->id);
	memcpy(s->parent, i->trace.span, sizeof(s->parent));
	s->kind = KIND_INTERNAL;
	s->end_ns = export_time_ms(i) * NS_MS;
	s->start_ns = began < 0 ? s->end_ns : (uint64_t)began * NS_MS;
	span_name(s, "execution", "");
	if (strcmp(state, "exited") != 0 || code != 0) {
		s->status = STATUS_ERROR;
		s->why = state;
	}
	return TEXT("cordon.session.id", i->record, "session") ||
			       TEXT("cordon.execution.id", i->record, "execution") ||
			       TEXT("cordon.execution.state", data, "state") ||
			       VALUE("process.exit.code", data, "exit_code") ||
			       TEXT("cordon.limit", data, "limit") ||
			       TEXT("process.command_line", x, "command") ||
			       TEXT("cordon.command.sha256", x, "command_sha256") ||
			       TEXT("process.working_directory", x, "cwd") ||
			       TEXT("process.user.name", x, "user") ||
			       TEXT("cordon.language", x, "language") ||
			       VALUE("cordon.execution.cpu_ms", x, "cpu_ms")
		       ? -1
		       : 0;
}

/* ---- what left the session */

/* The names of the GenAI conventions for ours. A word without a row is the same in both. */
static const char *word_of(const char *const (*rows)[2], size_t n, const char *word)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(rows[i][0], word) == 0)
			return rows[i][1];
	return word;
}

static const char *const operations[][2] = {
	{ "completion", "text_completion" },
	{ "response", "chat" },
	{ "embedding", "embeddings" },
};
static const char *const providers[][2] = { { "google", "gcp.gemini" } };

/* Google's interface has an operation of its own in the conventions. */
const char *export_model_operation(const json_t *model)
{
	const char *word = member_text(model, "operation", "chat");

	if (strcmp(word, "chat") == 0 && strcmp(member_text(model, "provider", ""), "google") == 0)
		return "generate_content";
	return word_of(operations, COUNT(operations), word);
}

const char *export_model_provider(const json_t *model)
{
	return word_of(providers, COUNT(providers), member_text(model, "provider", ""));
}

/* Model, tokens and times of one call, under the names of the conventions for generative AI.
 * Missing numbers are left out. */
static int span_model(struct export_span *s, const json_t *model)
{
	const char *operation = export_model_operation(model),
		   *stop = member_text(model, "stop", "");
	const json_t *first = json_object_get(model, "first_token_ms");

	span_name(s, operation, member_text(model, "model", ""));
	if (export_attribute_text(s->attributes, "gen_ai.operation.name", operation) < 0 ||
	    export_attribute_text(s->attributes, "gen_ai.provider.name",
				  export_model_provider(model)) < 0 ||
	    TEXT("gen_ai.request.model", model, "model") ||
	    VALUE("gen_ai.request.stream", model, "stream") ||
	    VALUE("gen_ai.usage.input_tokens", model, "input_tokens") ||
	    VALUE("gen_ai.usage.output_tokens", model, "output_tokens") ||
	    VALUE("gen_ai.usage.cache_read.input_tokens", model, "cached_tokens"))
		return -1;
	if (stop[0] != '\0') {
		json_t *list = json_pack("[s]", stop);
		int done = list == NULL
				   ? -1
				   : export_attribute_json(s->attributes, "",
							   "gen_ai.response.finish_reasons", list);

		json_decref(list);
		if (done < 0)
			return -1;
	}
	if (json_is_integer(first)) {
		json_t *seconds = json_real((double)json_integer_value(first) / 1000);
		int done = seconds == NULL
				   ? -1
				   : export_attribute_json(s->attributes, "",
							   "gen_ai.response.time_to_first_chunk",
							   seconds);

		json_decref(seconds);
		return done;
	}
	return 0;
}

/* The file of a package, judged by the policy. */
static int span_package(struct export_span *s, const json_t *package)
{
	char name[192];

	(void)snprintf(name, sizeof(name), "%.120s %.60s", member_text(package, "name", "?"),
		       member_text(package, "version", ""));
	span_name(s, "package", name);
	return TEXT("cordon.package.ecosystem", package, "ecosystem") ||
			       TEXT("cordon.package.name", package, "name") ||
			       TEXT("cordon.package.version", package, "version") ||
			       TEXT("cordon.package.file", package, "file") ||
			       TEXT("cordon.package.result", package, "result")
		       ? -1
		       : 0;
}

/* The URL without its query, which may have a secret. */
static int span_url(struct export_span *s, const json_t *r)
{
	const char *scheme = member_text(r, "scheme", NULL), *path = member_text(r, "path", "");
	uint64_t port = member_number(r, "port", 0);
	bool usual = scheme != NULL && ((strcmp(scheme, "https") == 0 && port == 443) ||
					(strcmp(scheme, "http") == 0 && port == 80));
	char url[EXPORT_TEXT_MAX], shown[16] = "";

	if (scheme == NULL)
		return 0;
	if (!usual && port != 0)
		(void)snprintf(shown, sizeof(shown), ":%u", (unsigned)port);
	(void)snprintf(url, sizeof(url), "%s://%s%s%.*s", scheme, member_text(r, "name", ""), shown,
		       4096, path);
	/* A cut inside of a character would be no UTF-8. */
	return strlen(path) > 4096 ? 0 : export_attribute_text(s->attributes, "url.full", url);
}

/* A status of 400 or more is an error of the request, although the connection was allowed. */
static int span_request(struct export_span *s, const json_t *r)
{
	uint64_t status = member_number(r, "status", 0);

	if (status >= 400)
		s->status = STATUS_ERROR;
	return TEXT("http.request.method", r, "method") || span_url(s, r) < 0 ||
			       (status > 0 && VALUE("http.response.status_code", r, "status"))
		       ? -1
		       : 0;
}

/* The id follows from the session, the record's number and its time, because a restored store
 * may give a number again. A package or model call adds its attributes to the span of its
 * request. */
static int span_of_network(struct export_span *s, const struct export_item *i)
{
	const json_t *r = i->record, *model = json_object_get(r, "model"),
		     *package = json_object_get(r, "package");
	const char *kind = member_text(r, "kind", ""),
		   *execution = member_text(r, "execution_id", "");
	bool refused = strcmp(member_text(r, "verdict", ""), "deny") == 0;
	char key[256];

	(void)snprintf(key, sizeof(key), "%s/%llu/%s", member_text(r, "session_id", ""),
		       (unsigned long long)i->seq, member_text(r, "time", ""));
	export_span_of("network", key, s->id);
	if (execution[0] != '\0')
		export_span_of("execution", execution, s->parent);
	else
		memcpy(s->parent, i->trace.span, sizeof(s->parent));
	s->kind = KIND_CLIENT;
	s->start_ns = export_time_ms(i) * NS_MS;
	s->end_ns = s->start_ns + member_number(r, "us", 0) % (UINT64_C(1) << 50) * 1000;
	span_name(s, strcmp(kind, "request") == 0 ? member_text(r, "method", "request") : kind,
		  strcmp(kind, "request") == 0 ? "" : member_text(r, "name", ""));
	if (refused) {
		s->status = STATUS_ERROR;
		s->why = member_text(r, "reason", "");
	}
	if (TEXT("cordon.session.id", r, "session_id") ||
	    TEXT("cordon.execution.id", r, "execution_id") ||
	    TEXT("cordon.verdict", r, "verdict") || TEXT("cordon.rule", r, "rule") ||
	    TEXT("cordon.class", r, "class") || TEXT("cordon.reason", r, "reason") ||
	    TEXT("server.address", r, "name") || TEXT("network.peer.address", r, "address") ||
	    VALUE("server.port", r, "port") || VALUE("cordon.bytes_in", r, "bytes_in") ||
	    VALUE("cordon.bytes_out", r, "bytes_out") ||
	    TEXT("error.type", refused ? r : NULL, "verdict"))
		return -1;
	if (json_object_get(r, "method") != NULL && span_request(s, r) < 0)
		return -1;
	if (json_is_object(package) && span_package(s, package) < 0)
		return -1;
	return json_is_object(model) ? span_model(s, model) : 0;
}

/* Which things are spans. Lookups of names that were allowed are not: the connection that follows
 * is. */
static int (*span_maker(const struct export_item *i))(struct export_span *,
						      const struct export_item *)
{
	const char *type = member_text(i->record, "type", "");

	if (i->trace.id[0] == '\0')
		return NULL;
	if (i->kind == EXPORT_NETWORK)
		return strcmp(member_text(i->record, "kind", ""), "dns") == 0 ? NULL
									      : span_of_network;
	return strcmp(type, "session.ended") == 0     ? span_of_session
	       : strcmp(type, "execution.ended") == 0 ? span_of_execution
						      : NULL;
}

/* NULL with *ret_none false: no memory. */
json_t *export_span(const struct export_item *i, bool *ret_none)
{
	int (*make)(struct export_span *, const struct export_item *) = span_maker(i);
	struct export_span s = { .attributes = NULL };

	*ret_none = make == NULL;
	if (make == NULL)
		return NULL;
	s.attributes = json_array();
	if (s.attributes != NULL && make(&s, i) == 0)
		return span_json(&s, i);
	json_decref(s.attributes);
	return NULL;
}
