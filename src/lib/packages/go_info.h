/* go_info.h - writes the answer to Go's @latest and .info for a version that a policy allows.
 * Called by cordon-egress (package_gate_meta.c). Pure. */
#pragma once

#include "lib/base/buf.h"

int go_info_write(const char *version, uint64_t time_ms, struct buf *out, struct err *e) MUST_USE;
