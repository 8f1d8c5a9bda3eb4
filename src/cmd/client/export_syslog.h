/* export_syslog.h - messages of RFC 5424. Pure. */
#pragma once

#include "cmd/client/export_item.h"
#include "lib/base/buf.h"

#define EXPORT_SYSLOG_MAX 65536 /* bytes of one message */
#define EXPORT_DATAGRAM_MAX 8192

/* <PRI>1 TIME HOST cordon - MSGID [meta sequenceId="N"][origin ...] {"source":...}
 *
 * Facility 13 (log audit). HOST is the node of the log, MSGID the code of the record ("SES01") or
 * the kind of the network record. The message is the same JSON as of files, in ASCII, so that it
 * needs no mark of UTF-8. One that is longer than max has its names only, and "cut". -1: no memory,
 * or it does not fit. */
int export_syslog_write(const struct export_item *i, const char *version, size_t max,
			struct buf *ret);
