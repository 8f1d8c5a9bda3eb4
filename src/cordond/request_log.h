/* request_log.h - one line in the log for each request that was answered. */
#pragma once

#include <stdint.h>

struct exchange;

/* bytes: of the answer; ns: from the first byte of the request to the last of the answer. */
void request_log(const struct exchange *x, int status, uint64_t bytes, uint64_t ns);
