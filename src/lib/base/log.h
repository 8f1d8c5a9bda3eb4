/* log.h - one event, one line, one write(2) to standard error.
 *
 *	log_info("session started", "session_id=%s ms=%u", id, ms);
 *
 * gives, as logfmt or as JSON,
 *
 *	time=2026-11-15T08:00:00.123Z level=info msg="session started" session_id=i0123 ms=7
 *
 * The template is "key=%x key=%x ...", keys of [a-z0-9_], conversions %s %d %u %ld %lu %lld %llu
 * and %zu. Any other fails an assertion. It may be empty (""). Values are quoted and escaped as
 * the format needs, so that text of a tenant cannot start a new line or field. Invalid
 * UTF-8 becomes U+FFFD. A value longer than LOG_VALUE_MAX bytes is cut and ends in "...".
 * Fields that would make the line longer than LOG_LINE_MAX are left out and counted in cut=N.
 *
 * Logging never fails: what standard error does not accept is lost. Blocks if write(2) blocks. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/own.h"

/* An event without fields is fine. */
#pragma GCC diagnostic ignored "-Wformat-zero-length"

/* The most bytes that a pipe takes whole, pipe(7): lines of two processes do not mix. */
#define LOG_LINE_MAX 4096
#define LOG_VALUE_MAX 1024

enum log_level { LOG_LEVEL_DEBUG, LOG_LEVEL_INFO, LOG_LEVEL_WARN, LOG_LEVEL_ERROR, LOG_LEVELS };
enum log_format { LOG_FORMAT_LOGFMT, LOG_FORMAT_JSON, LOG_FORMATS };

/* For the whole process. Until it is called, events of info and above are written, as logfmt. */
void log_setup(enum log_format format, enum log_level level);

const char *log_level_name(enum log_level level);
const char *log_format_name(enum log_format format);

/* Whether events of this level are written, for those that cost something to describe. */
bool log_wants(enum log_level level);

void log_write(enum log_level level, const char *what, const char *fields, ...) PRINTF(3, 4);

#define log_debug(...) log_write(LOG_LEVEL_DEBUG, __VA_ARGS__)
#define log_info(...) log_write(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_warn(...) log_write(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_error(...) log_write(LOG_LEVEL_ERROR, __VA_ARGS__)

/* At most `burst` events in `interval_ms`, for events that a peer can cause at will.
 *
 *	static struct log_limit limit = { .burst = 10, .interval_ms = 1000 };
 *	unsigned long long dropped;
 *
 *	if (log_limit(&limit, &dropped))
 *		log_warn("bad request", "peer=%s dropped=%llu", peer, dropped);
 *
 * *ret_dropped is how many were refused since the last that passed. */
struct log_limit {
	uint32_t burst, interval_ms;
	uint32_t used;	   /* in the running interval */
	uint64_t began_ns; /* when it began */
	unsigned long long dropped;
};

bool log_limit(struct log_limit *limit, unsigned long long *ret_dropped);
