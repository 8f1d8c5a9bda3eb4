/* export_otlp.h - items as JSON messages of OTLP (OpenTelemetry protocol 1.x): names in
 * lowerCamelCase, 64-bit numbers as decimal text, ids of traces and spans as hexadecimal digits,
 * enumerations as numbers. Pure.
 *
 * Every function returns a new reference, NULL without memory. */
#pragma once

#include <stddef.h>

#include "cmd/client/export_item.h"

#define EXPORT_TEXT_MAX 8192 /* bytes of one text. The rest of a longer one is cut off */

/* ---- attributes: an array of {"key", "value"} */

/* Each leaves out empty values, and returns 0, or -1 without memory. */
int export_attribute_text(json_t *list, const char *key, const char *text);
int export_attribute_number(json_t *list, const char *key, int64_t n);
/* Of any JSON value. Prefix and name make the key. */
int export_attribute_json(json_t *list, const char *prefix, const char *name, const json_t *v);
/* {"stringValue": ...} and so on, of any JSON value, at most six deep. */
json_t *export_any_value(const json_t *v);
/* Milliseconds as nanoseconds, decimal. */
json_t *export_nano(uint64_t ms);

/* ---- requests */

struct export_node {
	const char *origin;  /* of the log: its first part names the node */
	const char *tenant;  /* "": not known */
	const char *version; /* of this program */
};

/* The body for /v1/logs. NULL: no memory. *ret_n: how many records are in it. */
json_t *export_otlp_logs(const struct export_node *node, const struct export_item *items, size_t n,
			 uint64_t now_ms, size_t *ret_n);
/* The body for /v1/traces. */
json_t *export_otlp_traces(const struct export_node *node, const struct export_item *items,
			   size_t n, size_t *ret_n);

/* Used by both, and by export_metrics.c: {resource, scopeLogs: [{scope, logRecords: list}]} in an
 * array, as the member `all`. Take list over. */
json_t *export_otlp_wrap(const struct export_node *node, const char *all, const char *scopes,
			 const char *member, json_t *list);

/* The span of an item. NULL, with *ret_none true: it has none. */
json_t *export_span(const struct export_item *i, bool *ret_none);

/* Of Retry-After: seconds or a date of HTTP, in ms, at most an hour. 0: none. */
uint64_t export_retry_after(const char *text, uint64_t now_ms);
