/* go_info.c - writes the answer to Go's @latest and .info. It has these two members only. */
#include "lib/packages/go_info.h"

#include "lib/packages/doc_writer.h"
#include "lib/packages/package_time.h"

/* version: printable ASCII, as doc_writer_text() needs it. */
int go_info_write(const char *version, uint64_t time_ms, struct buf *out, struct err *e)
{
	struct doc_writer w = { .out = out };
	char time[PACKAGE_TIME_MAX];

	package_time_write(time_ms, time);
	doc_writer_value(&w, NULL, 0);
	doc_writer_open(&w, false);
	doc_writer_member(&w, "Version");
	doc_writer_text(&w, version);
	doc_writer_member(&w, "Time");
	doc_writer_text(&w, time);
	doc_writer_close(&w, false);
	return buf_check(out, e);
}
