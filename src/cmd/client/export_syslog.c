/* export_syslog.c - see export_syslog.h. The head has fixed fields in printable ASCII, the
 * message is one JSON object. Values of tenants are in the JSON only, where they are escaped. */
#include "cmd/client/export_syslog.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/client/member.h"
#include "lib/base/own.h"
#include "lib/base/str.h"

#define FACILITY 13

/* A field of the head: printable ASCII without spaces, "-" if it is empty. Every other byte
 * becomes '?', so a value cannot end its field. */
static void export_syslog_field(const char *text, size_t n, char *ret, size_t cap)
{
	size_t len = 0;

	for (size_t i = 0; i < n && len < cap - 1; i++)
		ret[len++] = text[i] > ' ' && text[i] < 0x7f ? text[i] : '?';
	if (len == 0)
		ret[len++] = '-';
	ret[len] = '\0';
}

/* PRI is facility * 8 + severity, where OpenTelemetry's numbers become those of syslog. A time
 * that is no time becomes "-". */
static void export_syslog_head(const struct export_item *i, const char *version, struct buf *ret)
{
	int severity = export_severity(i);
	const char *time = member_text(i->record, "time", "");
	char host[256], id[33];

	export_syslog_field(i->origin, strcspn(i->origin, "/"), host, sizeof(host));
	if (i->kind == EXPORT_AUDIT)
		export_syslog_field(member_text(i->record, "code", ""),
				    strlen(member_text(i->record, "code", "")), id, sizeof(id));
	else
		(void)snprintf(id, sizeof(id), "NET-%.20s", member_text(i->record, "kind", ""));
	/* sequenceId has 31 bits and begins at 1. */
	buf_printf(ret,
		   "<%d>1 %s %s cordon - %s [meta sequenceId=\"%llu\"][origin "
		   "software=\"cordon\" swVersion=\"%s\"] ",
		   FACILITY * 8 + (severity >= 17   ? 3
				   : severity >= 13 ? 4
						    : 6),
		   member_parse_time(time) < 0 ? "-" : time, host, id,
		   (unsigned long long)(i->seq % 2147483647 + 1), version);
}

/* ASCII only, so that the message needs no byte order mark. */
static int put_line(const struct export_item *i, bool whole, struct buf *ret)
{
	json_t *line = export_line(i, whole);
	OWN_MEM char *text =
		line == NULL ? NULL : json_dumps(line, JSON_COMPACT | JSON_ENSURE_ASCII);

	json_decref(line);
	if (text == NULL)
		return -1;
	buf_put(ret, text, strlen(text));
	return 0;
}

/* The whole item if it fits, else its names and "cut". A receiver can then ask the server for
 * it. */
int export_syslog_write(const struct export_item *i, const char *version, size_t max,
			struct buf *ret)
{
	struct err e;
	size_t before;

	buf_clear(ret);
	export_syslog_head(i, version, ret);
	before = ret->len;
	if (put_line(i, true, ret) < 0)
		return -1;
	if (buf_check(ret, &e) == 0 && ret->len <= max)
		return 0;
	buf_clear(ret);
	export_syslog_head(i, version, ret);
	if (ret->len != before || put_line(i, false, ret) < 0)
		return -1;
	return buf_check(ret, &e) == 0 && ret->len <= max ? 0 : -1;
}
