/* export_metrics.h - metrics in OTLP's JSON: what sessions use now, and tokens and times of model
 * calls by the conventions for generative AI. Pure. */
#pragma once

#include "cmd/client/export_otlp.h"

#define EXPORT_SERIES_MAX 64
#define EXPORT_BUCKETS 14 /* bounds between them */

/* Model calls since this program began. More kinds of calls than EXPORT_SERIES_MAX count as the
 * last one, "other". */
struct export_series {
	char operation[32], provider[32], model[64];
	struct export_sum {
		uint64_t count, buckets[EXPORT_BUCKETS + 1];
		double sum;
	} input, output, seconds;
};
struct export_calls {
	struct export_series all[EXPORT_SERIES_MAX];
	size_t n;
	uint64_t since_ms;
};

/* Count the model calls among the items. */
void export_calls_count(struct export_calls *c, const struct export_item *items, size_t n);
/* The body for /v1/metrics. sessions: the server's list of live sessions. NULL:
 * no memory. */
json_t *export_otlp_metrics(const struct export_node *node, const json_t *sessions,
			    const struct export_calls *c, uint64_t now_ms);

const char *export_model_operation(const json_t *model);
const char *export_model_provider(const json_t *model);
