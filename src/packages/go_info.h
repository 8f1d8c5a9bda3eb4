/* go_info.h - what Go's @latest and .info answer, written for a version that a policy allows.
 * Called by cordon-egress (package_gate_go.c). Pure. */
#pragma once

#include "buf.h"

int go_info_write(const char *version, uint64_t time_ms, struct buf *out, struct err *e) MUST_USE;
