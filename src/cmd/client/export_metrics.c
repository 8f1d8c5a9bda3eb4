/* export_metrics.c - see export_metrics.h. Two sources: counters of model calls, fed by the
 * records of each batch, and the server's list of live sessions, read at the time of sending.
 * Both become metrics of one request. */
#include "cmd/client/export_metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cmd/client/member.h"
#include "lib/base/str.h"

/* OTLP's number for sums since a start time. */
#define CUMULATIVE 2

/* The bounds that the conventions name. */
static const double token_bounds[EXPORT_BUCKETS] = { 1,	      4,       16,	 64,	  256,
						     1024,    4096,    16384,	 65536,	  262144,
						     1048576, 4194304, 16777216, 67108864 };
static const double second_bounds[EXPORT_BUCKETS] = {
	0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92
};

/* ---- model calls
 *
 * Model calls are counted here, because the server keeps records and no histograms. The counts
 * begin with this program. A restart shows to the receiver as a new start time. */

/* The place for this kind of call, made if it is new. The last place is for all further kinds,
 * so the number of series has a bound whatever names a session invents. */
static struct export_series *series_of(struct export_calls *c, const json_t *model)
{
	struct export_series one = { 0 };

	str_copy_to(one.operation, sizeof(one.operation), export_model_operation(model));
	str_copy_to(one.provider, sizeof(one.provider), export_model_provider(model));
	/* A cut would be of the middle of a character. */
	if (strlen(member_text(model, "model", "")) < sizeof(one.model))
		str_copy(one.model, member_text(model, "model", ""));
	for (size_t i = 0; i < c->n; i++)
		if (strcmp(c->all[i].operation, one.operation) == 0 &&
		    strcmp(c->all[i].provider, one.provider) == 0 &&
		    strcmp(c->all[i].model, one.model) == 0)
			return &c->all[i];
	if (c->n == EXPORT_SERIES_MAX)
		return &c->all[EXPORT_SERIES_MAX - 1];
	if (c->n == EXPORT_SERIES_MAX - 1)
		one = (struct export_series){ .operation = "other", .provider = "other" };
	c->all[c->n] = one;
	return &c->all[c->n++];
}

/* A value equal to a bound belongs below it, as OTLP defines its buckets. */
static void sum_add(struct export_sum *s, const double *bounds, double value)
{
	size_t at = 0;

	while (at < EXPORT_BUCKETS && value > bounds[at])
		at++;
	s->buckets[at]++;
	s->count++;
	s->sum += value;
}

/* Calls without token counts still count their time. */
void export_calls_count(struct export_calls *c, const struct export_item *items, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const json_t *r = items[i].record, *model = json_object_get(r, "model"), *v;
		struct export_series *s;

		if (items[i].kind != EXPORT_NETWORK || !json_is_object(model))
			continue;
		s = series_of(c, model);
		v = json_object_get(model, "input_tokens");
		if (json_is_integer(v))
			sum_add(&s->input, token_bounds, (double)json_integer_value(v));
		v = json_object_get(model, "output_tokens");
		if (json_is_integer(v))
			sum_add(&s->output, token_bounds, (double)json_integer_value(v));
		sum_add(&s->seconds, second_bounds, (double)member_number(r, "us", 0) / 1e6);
	}
}

/* 64-bit numbers are texts in OTLP's JSON. */
static json_t *export_metrics_decimal(uint64_t n)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%" PRIu64, n);
	return json_string(text);
}

/* One histogram. type NULL: the attribute is left out. */
static json_t *point_of_calls(const struct export_series *s, const struct export_sum *sum,
			      const double *bounds, const char *type, uint64_t since_ms,
			      uint64_t now_ms)
{
	json_t *attributes = json_array(), *buckets = json_array(), *at = json_array();
	bool bad = attributes == NULL || buckets == NULL || at == NULL;

	bad = bad || export_attribute_text(attributes, "gen_ai.operation.name", s->operation) < 0 ||
	      export_attribute_text(attributes, "gen_ai.provider.name", s->provider) < 0 ||
	      export_attribute_text(attributes, "gen_ai.request.model", s->model) < 0 ||
	      export_attribute_text(attributes, "gen_ai.token.type", type) < 0;
	for (size_t i = 0; i <= EXPORT_BUCKETS && !bad; i++)
		bad = json_array_append_new(buckets, export_metrics_decimal(sum->buckets[i])) < 0 ||
		      (i < EXPORT_BUCKETS && json_array_append_new(at, json_real(bounds[i])) < 0);
	if (bad) {
		json_decref(attributes);
		json_decref(buckets);
		json_decref(at);
		return NULL;
	}
	return json_pack("{s:o,s:o,s:o,s:o,s:f,s:o,s:o}", "attributes", attributes,
			 "startTimeUnixNano", export_nano(since_ms), "timeUnixNano",
			 export_nano(now_ms), "count", export_metrics_decimal(sum->count), "sum",
			 sum->sum, "bucketCounts", buckets, "explicitBounds", at);
}

/* Take points over. An empty metric is left out, because receivers refuse one without points.
 * NULL points: no memory. */
static int metric_add(json_t *list, const char *name, const char *unit, const char *kind,
		      json_t *points, bool monotonic)
{
	json_t *body;

	if (points == NULL)
		return -1;
	if (json_array_size(points) == 0) {
		json_decref(points);
		return 0;
	}
	if (strcmp(kind, "gauge") == 0)
		body = json_pack("{s:o}", "dataPoints", points);
	else if (strcmp(kind, "sum") == 0)
		body = json_pack("{s:i,s:b,s:o}", "aggregationTemporality", CUMULATIVE,
				 "isMonotonic", monotonic, "dataPoints", points);
	else
		body = json_pack("{s:i,s:o}", "aggregationTemporality", CUMULATIVE, "dataPoints",
				 points);
	return body == NULL ? -1
			    : json_array_append_new(list, json_pack("{s:s,s:s,s:o}", "name", name,
								    "unit", unit, kind, body));
}

/* tokens and seconds are owned here until metric_add() takes them over. */
static int metrics_of_calls(json_t *list, const struct export_calls *c, uint64_t now_ms)
{
	json_t *tokens = json_array(), *seconds = json_array();
	bool bad = tokens == NULL || seconds == NULL;

	for (size_t i = 0; i < c->n && !bad; i++) {
		const struct export_series *s = &c->all[i];

		bad = (s->input.count > 0 &&
		       json_array_append_new(tokens, point_of_calls(s, &s->input, token_bounds,
								    "input", c->since_ms, now_ms)) <
			       0) ||
		      (s->output.count > 0 &&
		       json_array_append_new(tokens,
					     point_of_calls(s, &s->output, token_bounds, "output",
							    c->since_ms, now_ms)) < 0) ||
		      json_array_append_new(seconds, point_of_calls(s, &s->seconds, second_bounds,
								    NULL, c->since_ms, now_ms)) < 0;
	}
	if (bad) {
		json_decref(tokens);
		json_decref(seconds);
		return -1;
	}
	if (metric_add(list, "gen_ai.client.token.usage", "{token}", "histogram", tokens, false) <
	    0) {
		json_decref(seconds);
		return -1;
	}
	return metric_add(list, "gen_ai.client.operation.duration", "s", "histogram", seconds,
			  false);
}

/* ---- sessions */

/* A number of a session, found by one or two names. */
struct gauge {
	const char *name, *unit, *group, *inner, *member;
	double scale;
	bool sum; /* it only grows */
	const char *attribute, *value;
};

static const struct gauge gauges[] = {
	{ "cordon.session.cpu.time", "s", "usage", NULL, "cpu_ms", 0.001, true, NULL, NULL },
	{ "cordon.session.memory.peak", "By", "usage", NULL, "memory_peak_bytes", 1, false, NULL,
	  NULL },
	{ "cordon.session.disk.usage", "By", "usage", NULL, "disk_bytes", 1, false, NULL, NULL },
	{ "cordon.session.network.io", "By", "usage", "network", "bytes_in", 1, true,
	  "network.io.direction", "receive" },
	{ "cordon.session.network.io", "By", "usage", "network", "bytes_out", 1, true,
	  "network.io.direction", "transmit" },
	{ "cordon.session.network.requests", "{request}", "usage", "network", "requests", 1, true,
	  NULL, NULL },
	{ "cordon.session.executions", "{execution}", NULL, NULL, "executions_running", 1, false,
	  NULL, NULL },
};

/* One value of one session. A missing member counts as 0. */
static json_t *point_of_session(const struct gauge *g, const json_t *session, uint64_t now_ms)
{
	const json_t *at = g->group == NULL ? session : member_group(session, g->group);
	int64_t since = member_time(session, "created_at");
	json_t *attributes = json_array();

	if (g->inner != NULL)
		at = member_group(at, g->inner);
	if (attributes == NULL ||
	    export_attribute_text(attributes, "cordon.session.id", member_text(session, "id", "")) <
		    0 ||
	    export_attribute_text(attributes, "cordon.template",
				  member_text(session, "template", "")) < 0 ||
	    (g->attribute != NULL &&
	     export_attribute_text(attributes, g->attribute, g->value) < 0)) {
		json_decref(attributes);
		return NULL;
	}
	return json_pack("{s:o,s:o,s:o,s:f}", "attributes", attributes, "startTimeUnixNano",
			 export_nano(since < 0 ? 0 : (uint64_t)since), "timeUnixNano",
			 export_nano(now_ms), "asDouble",
			 (double)member_number(at, g->member, 0) * g->scale);
}

/* Rows of one name that follow each other are one metric. */
static int metrics_of_sessions(json_t *list, const json_t *sessions, uint64_t now_ms)
{
	for (size_t g = 0; g < COUNT(gauges);) {
		size_t end = g;
		json_t *points = json_array(), *one;
		size_t at;

		for (; end < COUNT(gauges) && strcmp(gauges[end].name, gauges[g].name) == 0; end++)
			json_array_foreach(
				sessions, at,
				one) if (points != NULL &&
					 json_array_append_new(
						 points,
						 point_of_session(&gauges[end], one, now_ms)) < 0)
			{
				json_decref(points);
				points = NULL;
			}
		if (metric_add(list, gauges[g].name, gauges[g].unit,
			       gauges[g].sum ? "sum" : "gauge", points, gauges[g].sum) < 0)
			return -1;
		g = end;
	}
	return 0;
}

/* All states are sent, also those without a session: a gauge that is left out would keep its
 * last value at the receiver. */
static int metric_of_states(json_t *list, const json_t *sessions, uint64_t now_ms)
{
	static const char *const states[] = { "creating", "running", "pausing", "paused",
					      "resuming", "ending",  "stopped" };
	json_t *points = json_array(), *one;
	size_t at;

	for (size_t i = 0; i < COUNT(states) && points != NULL; i++) {
		json_t *attributes = json_array();
		int64_t n = 0;

		json_array_foreach(sessions, at, one) n +=
			strcmp(member_text(one, "state", ""), states[i]) == 0;
		if (attributes == NULL ||
		    export_attribute_text(attributes, "cordon.session.state", states[i]) < 0 ||
		    json_array_append_new(points,
					  json_pack("{s:o,s:o,s:o}", "attributes", attributes,
						    "timeUnixNano", export_nano(now_ms), "asInt",
						    export_metrics_decimal((uint64_t)n))) < 0) {
			json_decref(points);
			points = NULL;
		}
	}
	return metric_add(list, "cordon.sessions", "{session}", "gauge", points, false);
}

/* Metrics of sessions are read fresh for each request. Those of calls come from the counter. */
json_t *export_otlp_metrics(const struct export_node *node, const json_t *sessions,
			    const struct export_calls *c, uint64_t now_ms)
{
	json_t *list = json_array();

	if (list == NULL || metric_of_states(list, sessions, now_ms) < 0 ||
	    metrics_of_sessions(list, sessions, now_ms) < 0 ||
	    metrics_of_calls(list, c, now_ms) < 0) {
		json_decref(list);
		return NULL;
	}
	return export_otlp_wrap(node, "resourceMetrics", "scopeMetrics", "metrics", list);
}
