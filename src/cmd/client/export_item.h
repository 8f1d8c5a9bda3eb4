/* export_item.h - one exported item: an audit record or a network record, with its trace. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/http/traceparent.h"

#define EXPORT_TRACE_MAX 33 /* hexadecimal digits, with the NUL */
#define EXPORT_SPAN_MAX 17
#define EXPORT_ORIGIN_MAX 256

enum export_kind { EXPORT_AUDIT, EXPORT_NETWORK };

/* The trace of a session. */
struct export_trace {
	char id[EXPORT_TRACE_MAX];
	char span[EXPORT_SPAN_MAX];   /* of the session */
	char parent[EXPORT_SPAN_MAX]; /* the client's span. "": none */
};

struct export_item {
	enum export_kind kind;
	char origin[EXPORT_ORIGIN_MAX]; /* origin and seq name the item */
	uint64_t seq;
	const json_t *record;	   /* borrowed, as the others */
	const json_t *side;	   /* the values behind commitments. NULL: not exported */
	const json_t *session;	   /* as the server shows it. NULL: not known any more */
	const json_t *execution;   /* the same, of records execution.ended */
	struct export_trace trace; /* id "": it belongs to no session */
};

/* From the session's id and the traceparent that its client gave ("" or NULL: none). */
void export_trace_of(const char *session, const char *traceparent, struct export_trace *ret);
/* The span of a thing, always the same. key may have any text. */
void export_span_of(const char *kind, const char *key, char ret[EXPORT_SPAN_MAX]);

/* 9 info, 13 warning, 17 error: as OpenTelemetry counts. */
int export_severity(const struct export_item *i);
/* One sentence for people, cut at cap. */
void export_sentence(const struct export_item *i, char *ret, size_t cap);
/* Milliseconds since 1970. */
uint64_t export_time_ms(const struct export_item *i);
/* The type of a record of the audit log, "network." and the kind of a network record. */
void export_type(const struct export_item *i, char *ret, size_t cap);
/* The item as one JSON object, for lines. The caller releases it. NULL: no memory. whole: with the
 * record. Otherwise only the members that name it, and "cut". */
json_t *export_line(const struct export_item *i, bool whole);
