/* Goal: each thing that is exported has the form that its receiver expects: items as log records,
 * spans, metrics, messages of syslog and lines. Ids are the same every time. */
#include "cmd/client/export_metrics.h"
#include "cmd/client/export_syslog.h"
#include "cmd/client/member.h"

#include "support.h"

static const struct export_node node = { "cordon.ab/ten_a/1", "ten_a", "9.9" };

static json_t *parsed(const char *text)
{
	json_t *j = json_loads(text, 0, NULL);

	CHECK(j != NULL);
	return j;
}

static struct export_item audit_item(const char *record, const char *traceparent)
{
	struct export_item i = { .kind = EXPORT_AUDIT, .seq = 7, .record = parsed(record) };

	(void)snprintf(i.origin, sizeof(i.origin), "cordon.ab/ten_a/1");
	export_trace_of(member_text(i.record, "session", ""), traceparent, &i.trace);
	return i;
}

static struct export_item network_item(const char *record)
{
	struct export_item i = { .kind = EXPORT_NETWORK, .seq = 8, .record = parsed(record) };

	(void)snprintf(i.origin, sizeof(i.origin), "cordon.ab/ten_a/network");
	export_trace_of("i1", NULL, &i.trace);
	return i;
}

static void drop(struct export_item *i)
{
	json_decref((json_t *)(uintptr_t)i->record);
}

/* The value of an attribute as JSON text, "" if there is none. */
static const char *attribute(const json_t *thing, const char *key)
{
	static char text[512];
	const json_t *list = member_group(thing, "attributes"), *row;
	size_t at;

	json_array_foreach((json_t *)(uintptr_t)list, at,
			   row) if (strcmp(member_text(row, "key", ""), key) == 0)
	{
		OWN_MEM char *dump = json_dumps(json_object_get(row, "value"), JSON_COMPACT);

		(void)snprintf(text, sizeof(text), "%s", dump);
		return text;
	}
	return "";
}

static const json_t *inner(const json_t *request, const char *all, const char *scopes,
			   const char *member)
{
	return member_group(
		json_array_get(member_group(json_array_get(member_group(request, all), 0), scopes),
			       0),
		member);
}

#define PARENT "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

static void traces_of_sessions(void)
{
	struct export_trace one, again, other, given;

	export_trace_of("i1", NULL, &one);
	export_trace_of("i1", "", &again);
	export_trace_of("i2", NULL, &other);
	CHECK_STR(one.id, again.id);
	CHECK(strlen(one.id) == 32 && strlen(one.span) == 16 && one.parent[0] == '\0');
	CHECK(strcmp(one.id, other.id) != 0 && strcmp(one.span, other.span) != 0);
	export_trace_of("i1", PARENT, &given);
	CHECK_STR(given.id, "4bf92f3577b34da6a3ce929d0e0e4736");
	CHECK_STR(given.parent, "00f067aa0ba902b7");
	CHECK_STR(given.span, one.span);
	export_trace_of("i1", "00-x", &given);
	CHECK_STR(given.id, one.id);
}

static void values(void)
{
	static const char *const rows[][2] = {
		{ "\"a\"", "{\"stringValue\":\"a\"}" },
		{ "5", "{\"intValue\":\"5\"}" },
		{ "-9223372036854775808", "{\"intValue\":\"-9223372036854775808\"}" },
		{ "1.5", "{\"doubleValue\":1.5}" },
		{ "true", "{\"boolValue\":true}" },
		{ "null", "{}" },
		{ "[1,\"x\"]",
		  "{\"arrayValue\":{\"values\":[{\"intValue\":\"1\"},{\"stringValue\":\"x\"}]}}" },
		{ "{\"k\":false}", "{\"kvlistValue\":{\"values\":[{\"key\":\"k\",\"value\":{"
				   "\"boolValue\":false}}]}}" },
		{ "[[[[[[[[1]]]]]]]]", NULL }, /* bounded */
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		OWN_JSON *v = json_loads(rows[i][0], JSON_DECODE_ANY, NULL);
		OWN_JSON *out = export_any_value(v);
		OWN_MEM char *text = json_dumps(out, JSON_COMPACT);

		CHECK(text != NULL);
		if (rows[i][1] != NULL)
			CHECK_STR(text, rows[i][1]);
		else
			CHECK(strstr(text, "...") != NULL);
	}
}

static void long_texts_are_cut(void)
{
	static char text[3 * EXPORT_TEXT_MAX];
	OWN_JSON *list = json_array();
	const char *got;

	/* Three bytes a character: 8192 is inside of one. */
	for (size_t i = 0; i + 3 < sizeof(text); i += 3)
		memcpy(text + i, "\xe2\x82\xac", 3);
	CHECK(export_attribute_text(list, "k", text) == 0);
	got = member_text(member_group(json_array_get(list, 0), "value"), "stringValue", "");
	CHECK(strlen(got) == EXPORT_TEXT_MAX / 3 * 3);
}

static void log_records(void)
{
	struct export_item i = audit_item(
		"{\"v\":1,\"seq\":7,\"time\":\"2026-11-19T20:00:00.123Z\",\"type\":"
		"\"execution.limit\","
		"\"code\":\"EXE03\",\"tenant\":\"ten_a\",\"session\":\"i1\",\"execution\":"
		"\"exe_1\",\"actor\":{\"key\":\"key_1\",\"interface\":\"api\"},"
		"\"data\":{\"limits_hit\":\"memory\",\"exit_code\":137},\"sealed\":{\"path\":"
		"\"c:00\"}}",
		PARENT);
	char span[EXPORT_SPAN_MAX];
	size_t n;
	OWN_JSON *body = export_otlp_logs(&node, &i, 1, 5, &n);
	const json_t *r = json_array_get(inner(body, "resourceLogs", "scopeLogs", "logRecords"), 0);

	CHECK(n == 1);
	CHECK_STR(member_text(r, "timeUnixNano", ""), "1795118400123000000");
	CHECK_STR(member_text(r, "observedTimeUnixNano", ""), "5000000");
	CHECK(member_number(r, "severityNumber", 0) == 13);
	CHECK_STR(member_text(r, "eventName", ""), "execution.limit");
	CHECK_STR(member_text(member_group(r, "body"), "stringValue", ""),
		  "execution.limit limits_hit=memory exit_code=137");
	CHECK_STR(member_text(r, "traceId", ""), "4bf92f3577b34da6a3ce929d0e0e4736");
	export_span_of("execution", "exe_1", span);
	CHECK_STR(member_text(r, "spanId", ""), span);
	CHECK_STR(attribute(r, "cordon.audit.seq"), "{\"intValue\":\"7\"}");
	CHECK_STR(attribute(r, "cordon.audit.code"), "{\"stringValue\":\"EXE03\"}");
	CHECK_STR(attribute(r, "cordon.actor.key"), "{\"stringValue\":\"key_1\"}");
	CHECK_STR(attribute(r, "cordon.data.exit_code"), "{\"intValue\":\"137\"}");
	CHECK_STR(attribute(r, "cordon.sealed.path"), "{\"stringValue\":\"c:00\"}");
	CHECK_STR(attribute(r, "cordon.value.path"), "");
	drop(&i);
}

static void severities(void)
{
	static const struct {
		const char *type, *data;
		int severity;
	} rows[] = {
		{ "session.created", "{}", 9 },
		{ "audit.rollback", "{}", 17 },
		{ "package.changed", "{}", 17 },
		{ "execution.ended", "{\"state\":\"exited\"}", 9 },
		{ "execution.ended", "{\"state\":\"killed\"}", 13 },
		{ "session.state", "{\"severity\":\"alarm\"}", 17 },
		{ "session.state", "{\"severity\":\"warning\"}", 13 },
	};
	char text[256];

	for (size_t i = 0; i < COUNT(rows); i++) {
		struct export_item item;

		(void)snprintf(text, sizeof(text), "{\"type\":\"%s\",\"data\":%s}", rows[i].type,
			       rows[i].data);
		item = audit_item(text, NULL);
		CHECK(export_severity(&item) == rows[i].severity);
		drop(&item);
	}
}

static json_t *span_of(const struct export_item *i)
{
	bool none;
	json_t *s = export_span(i, &none);

	CHECK(!none && s != NULL);
	return s;
}

static void session_spans(void)
{
	struct export_item i = audit_item(
		"{\"time\":\"2026-11-19T20:00:00.000Z\",\"type\":\"session.ended\",\"session\":"
		"\"i1\",\"data\":{\"reason\":\"oom\",\"duration_ms\":1500,\"cleanup\":\"done\"}}",
		PARENT);
	OWN_JSON *s = span_of(&i);

	CHECK_STR(member_text(s, "name", ""), "session");
	CHECK_STR(member_text(s, "parentSpanId", ""), "00f067aa0ba902b7");
	CHECK_STR(member_text(s, "spanId", ""), i.trace.span);
	CHECK_STR(member_text(s, "startTimeUnixNano", ""), "1795118398500000000");
	CHECK_STR(member_text(s, "endTimeUnixNano", ""), "1795118400000000000");
	CHECK(member_number(member_group(s, "status"), "code", 0) == 2);
	CHECK_STR(member_text(member_group(s, "status"), "message", ""), "oom");
	drop(&i);
}

static void execution_spans(void)
{
	struct export_item i = audit_item(
		"{\"time\":\"2026-11-19T20:00:00.000Z\",\"type\":\"execution.ended\",\"session\":"
		"\"i1\",\"execution\":\"exe_1\",\"data\":{\"state\":\"exited\",\"exit_code\":0}}",
		NULL);
	OWN_JSON *shown = parsed("{\"started_at\":\"2026-11-19T19:59:59.000Z\",\"command\":\"ls\","
				 "\"command_sha256\":\"00\",\"cpu_ms\":3}");

	i.execution = shown;
	OWN_JSON *s = span_of(&i);

	CHECK_STR(member_text(s, "name", ""), "execution");
	CHECK_STR(member_text(s, "parentSpanId", ""), i.trace.span);
	CHECK_STR(member_text(s, "startTimeUnixNano", ""), "1795118399000000000");
	CHECK(json_object_get(s, "status") == NULL);
	CHECK_STR(attribute(s, "process.command_line"), "{\"stringValue\":\"ls\"}");
	CHECK_STR(attribute(s, "process.exit.code"), "{\"intValue\":\"0\"}");
	drop(&i);
}

static void request_spans(void)
{
	struct export_item i = network_item(
		"{\"time\":\"2026-11-19T20:00:00.000Z\",\"session_id\":\"i1\",\"execution_id\":"
		"\"exe_1\",\"kind\":\"request\",\"name\":\"a.example\",\"port\":8443,\"scheme\":"
		"\"https\",\"method\":\"GET\",\"path\":\"/"
		"p\",\"query\":\"token=secret\",\"verdict\":"
		"\"allow\",\"rule\":\"r1\",\"status\":404,\"us\":2500}");
	char parent[EXPORT_SPAN_MAX];
	OWN_JSON *s = span_of(&i);
	OWN_MEM char *text = json_dumps(s, 0);

	export_span_of("execution", "exe_1", parent);
	CHECK_STR(member_text(s, "name", ""), "GET");
	CHECK(member_number(s, "kind", 0) == 3);
	CHECK_STR(member_text(s, "parentSpanId", ""), parent);
	CHECK_STR(member_text(s, "endTimeUnixNano", ""), "1795118400002500000");
	CHECK_STR(attribute(s, "url.full"), "{\"stringValue\":\"https://a.example:8443/p\"}");
	CHECK_STR(attribute(s, "http.response.status_code"), "{\"intValue\":\"404\"}");
	CHECK_STR(attribute(s, "cordon.rule"), "{\"stringValue\":\"r1\"}");
	CHECK(member_number(member_group(s, "status"), "code", 0) == 2);
	CHECK(strstr(text, "secret") == NULL); /* of the query */
	drop(&i);
}

static void names_are_no_spans(void)
{
	struct export_item i =
		network_item("{\"kind\":\"dns\",\"verdict\":\"deny\",\"name\":\"x\"}");
	bool none;
	size_t n;

	CHECK(export_span(&i, &none) == NULL && none);
	OWN_JSON *logs = export_otlp_logs(&node, &i, 1, 5, &n);
	CHECK(n == 1); /* but a refusal is a log record */
	drop(&i);
}

static void package_spans(void)
{
	struct export_item i = network_item(
		"{\"time\":\"2026-11-19T20:00:00.000Z\",\"session_id\":\"i1\",\"kind\":\"package\","
		"\"verdict\":\"deny\",\"reason\":\"too new\",\"name\":\"pypi.org\",\"package\":{"
		"\"ecosystem\":\"pypi\",\"name\":\"requests\",\"version\":\"2.31\",\"result\":"
		"\"refused\"}}");
	OWN_JSON *s = span_of(&i);

	CHECK_STR(member_text(s, "name", ""), "package requests 2.31");
	CHECK_STR(member_text(s, "parentSpanId", ""), i.trace.span);
	CHECK_STR(attribute(s, "cordon.package.ecosystem"), "{\"stringValue\":\"pypi\"}");
	CHECK_STR(member_text(member_group(s, "status"), "message", ""), "too new");
	drop(&i);
}

#define MODEL_CALL                                                                             \
	"{\"time\":\"2026-11-19T20:00:00.000Z\",\"session_id\":\"i1\",\"kind\":\"request\","   \
	"\"verdict\":\"allow\",\"method\":\"POST\",\"name\":\"api.example\",\"status\":200,"   \
	"\"us\":1500000,\"model\":{\"provider\":\"google\",\"operation\":\"chat\",\"model\":"  \
	"\"m-1\",\"stream\":true,\"input_tokens\":100,\"output_tokens\":20,\"cached_tokens\":" \
	"null,\"first_token_ms\":250,\"stop\":\"end_turn\",\"prompt\":\"private\"}}"

static void model_calls(void)
{
	struct export_item i = network_item(MODEL_CALL);
	OWN_JSON *s = span_of(&i);
	OWN_MEM char *text = json_dumps(s, 0);

	CHECK_STR(member_text(s, "name", ""), "generate_content m-1");
	CHECK_STR(attribute(s, "gen_ai.operation.name"), "{\"stringValue\":\"generate_content\"}");
	CHECK_STR(attribute(s, "gen_ai.provider.name"), "{\"stringValue\":\"gcp.gemini\"}");
	CHECK_STR(attribute(s, "gen_ai.request.model"), "{\"stringValue\":\"m-1\"}");
	CHECK_STR(attribute(s, "gen_ai.usage.input_tokens"), "{\"intValue\":\"100\"}");
	CHECK_STR(attribute(s, "gen_ai.usage.output_tokens"), "{\"intValue\":\"20\"}");
	CHECK_STR(attribute(s, "gen_ai.usage.cache_read.input_tokens"), "");
	CHECK_STR(attribute(s, "gen_ai.response.time_to_first_chunk"), "{\"doubleValue\":0.25}");
	CHECK_STR(attribute(s, "gen_ai.response.finish_reasons"),
		  "{\"arrayValue\":{\"values\":[{\"stringValue\":\"end_turn\"}]}}");
	CHECK(strstr(text, "private") == NULL);
	drop(&i);
}

static const json_t *metric_named(const json_t *request, const char *name)
{
	const json_t *list = inner(request, "resourceMetrics", "scopeMetrics", "metrics"), *m;
	size_t at;

	json_array_foreach((json_t *)(uintptr_t)list, at,
			   m) if (strcmp(member_text(m, "name", ""), name) == 0) return m;
	return NULL;
}

static void metrics(void)
{
	static struct export_calls calls = { .since_ms = 1 };
	struct export_item i = network_item(MODEL_CALL);
	OWN_JSON *sessions = parsed(
		"[{\"id\":\"i1\",\"state\":\"running\",\"template\":\"t\",\"created_at\":"
		"\"2026-11-19T20:00:00.000Z\",\"usage\":{\"cpu_ms\":1500,\"memory_peak_bytes\":7,"
		"\"disk_bytes\":8,\"network\":{\"bytes_in\":1,\"bytes_out\":2,\"requests\":3}},"
		"\"executions_running\":1}]");
	const json_t *m, *p;

	export_calls_count(&calls, &i, 1);
	export_calls_count(&calls, &i, 1);
	OWN_JSON *body = export_otlp_metrics(&node, sessions, &calls, 2000);

	m = metric_named(body, "cordon.session.cpu.time");
	CHECK(json_is_true(json_object_get(member_group(m, "sum"), "isMonotonic")));
	p = json_array_get(member_group(member_group(m, "sum"), "dataPoints"), 0);
	CHECK(json_real_value(json_object_get(p, "asDouble")) == 1.5);
	m = metric_named(body, "cordon.session.network.io");
	CHECK(json_array_size(member_group(member_group(m, "sum"), "dataPoints")) == 2);
	CHECK(metric_named(body, "cordon.sessions") != NULL);
	m = metric_named(body, "gen_ai.client.token.usage");
	p = json_array_get(member_group(member_group(m, "histogram"), "dataPoints"), 0);
	CHECK_STR(member_text(p, "count", ""), "2");
	CHECK(json_real_value(json_object_get(p, "sum")) == 200);
	/* 64 < 100 <= 256 */
	CHECK_STR(json_string_value(json_array_get(member_group(p, "bucketCounts"), 4)), "2");
	m = metric_named(body, "gen_ai.client.operation.duration");
	CHECK(m != NULL);
	drop(&i);
}

/* Kinds of calls beyond the bound are one. */
static void series_are_bounded(void)
{
	static struct export_calls calls;
	char text[256];

	for (unsigned n = 0; n < 2 * EXPORT_SERIES_MAX; n++) {
		struct export_item i;

		(void)snprintf(text, sizeof(text),
			       "{\"kind\":\"request\",\"model\":{\"provider\":\"p\",\"operation\":"
			       "\"chat\",\"model\":\"m%u\"}}",
			       n);
		i = network_item(text);
		export_calls_count(&calls, &i, 1);
		drop(&i);
	}
	CHECK(calls.n == EXPORT_SERIES_MAX);
	CHECK_STR(calls.all[EXPORT_SERIES_MAX - 1].operation, "other");
	CHECK(calls.all[EXPORT_SERIES_MAX - 1].seconds.count == EXPORT_SERIES_MAX + 1);
}

static void syslog_messages(void)
{
	struct export_item i = audit_item("{\"time\":\"2026-11-19T20:00:00.123Z\",\"type\":"
					  "\"session.created\",\"code\":\"SES01\",\"data\":{"
					  "\"template\":\"\xe2\x82\xac\"}}",
					  NULL);
	struct buf b = BUF_INIT(65536);

	i.trace.id[0] = '\0';
	CHECK(export_syslog_write(&i, "9.9", 8192, &b) == 0);
	CHECK_STR(buf_text(&b),
		  "<110>1 2026-11-19T20:00:00.123Z cordon.ab cordon - SES01 [meta "
		  "sequenceId=\"8\"][origin software=\"cordon\" swVersion=\"9.9\"] "
		  "{\"source\":\"audit\",\"origin\":\"cordon.ab/ten_a/1\",\"seq\":7,\"type\":"
		  "\"session.created\",\"record\":{\"time\":\"2026-11-19T20:00:00.123Z\",\"type\":"
		  "\"session.created\",\"code\":\"SES01\",\"data\":{\"template\":\"\\u20AC\"}}}");
	/* Too long: its names. */
	CHECK(export_syslog_write(&i, "9.9", b.len - 1, &b) == 0);
	CHECK(strstr(buf_text(&b), "\"cut\":true") != NULL &&
	      strstr(buf_text(&b), "u20AC") == NULL);
	CHECK(export_syslog_write(&i, "9.9", 100, &b) < 0);
	buf_release(&b);
	drop(&i);
}

static void retry_after(void)
{
	CHECK(export_retry_after("5", 0) == 5000);
	CHECK(export_retry_after("0", 0) == 0);
	CHECK(export_retry_after("99999", 0) == 3600000);
	CHECK(export_retry_after("9999999999999999999999", 0) == 3600000);
	CHECK(export_retry_after("", 0) == 0 && export_retry_after("soon", 0) == 0 &&
	      export_retry_after("-5", 0) == 0);
	CHECK(export_retry_after("Thu, 19 Nov 2026 20:00:10 GMT", 1795118400000) == 10000);
	CHECK(export_retry_after("Thu, 19 Nov 2026 19:00:10 GMT", 1795118400000) == 0);
}

TEST_MAIN({ "traces of sessions", traces_of_sessions }, { "values", values },
	  { "long texts are cut", long_texts_are_cut }, { "log records", log_records },
	  { "severities", severities }, { "session spans", session_spans },
	  { "execution spans", execution_spans }, { "request spans", request_spans },
	  { "names are no spans", names_are_no_spans }, { "package spans", package_spans },
	  { "model calls", model_calls }, { "metrics", metrics },
	  { "series are bounded", series_are_bounded }, { "syslog messages", syslog_messages },
	  { "retry after", retry_after })
