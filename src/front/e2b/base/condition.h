/* condition.h - the headers of a request that decide whether and how a file is sent: conditions
 * (RFC 9110, 13) and acceptable encodings. There are no entity tags here, only times. Pure. */
#pragma once

#include <stdint.h>

#include "lib/http/http1.h"

enum condition {
	CONDITION_SEND,
	CONDITION_UNCHANGED, /* 304 */
	CONDITION_FAILED     /* 412 */
};

#define CONDITION_DATE_MAX 32

/* Seconds since 1970 as "Sun, 15 Nov 2026 11:14:41 GMT". False: no such year. */
bool condition_write_date(int64_t seconds, char ret[CONDITION_DATE_MAX]) MUST_USE;
/* Only that form. */
bool condition_read_date(struct http1_span text, int64_t *ret_seconds) MUST_USE;

/* Does the request depend on when the file was changed? */
bool condition_given(const struct http1_request *q);
/* Decide by the time at which the file was changed. *ret_whole: its range is to be ignored. */
enum condition condition_check(const struct http1_request *q, int64_t changed_s, bool *ret_whole);

/* May the file be sent as it is? */
bool condition_takes_identity(const struct http1_request *q);
