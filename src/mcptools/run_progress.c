#include "run_progress.h"

#include <string.h>

#include "execution.h"
#include "output.h"
#include "shown_text.h"

#define LAST_LINE 200
#define PROGRESS_RECORDS 1024

static void keep_last(struct run_progress *p, const uint8_t *bytes, size_t n)
{
	size_t skip = n > LAST_LINE ? n - LAST_LINE : 0;

	buf_put(&p->last, bytes + skip, n - skip);
	if (p->last.len > LAST_LINE)
		buf_consume(&p->last, p->last.len - LAST_LINE);
}

static void read_log(struct tool_call *c, struct run_progress *p, const struct store_execution *row)
{
	uint8_t bytes[4096];
	struct output_chunk chunk;
	struct err e;

	if (p->log <= 0 &&
	    (execution_log(c->r->core, row->session, row->id, &p->log, &e) < 0 || p->log < 0))
		return;
	for (unsigned i = 0; i < PROGRESS_RECORDS; i++) {
		if (output_look(p->log, p->cursor, &chunk, &e) <= 0)
			return;
		if (chunk.len > sizeof(bytes)) {
			output_skip(&p->cursor, &chunk);
			buf_clear(&p->last);
			continue;
		}
		if (output_read(p->log, &p->cursor, &chunk, bytes, sizeof(bytes), &e) <= 0)
			return;
		if (chunk.stream == OUTPUT_STDOUT || chunk.stream == OUTPUT_STDERR)
			keep_last(p, bytes, chunk.len);
	}
}

void run_progress_show(struct run_progress *p, struct tool_call *c, struct execution *x,
		       uint64_t *ret_done, struct buf *message)
{
	const struct store_execution *row = execution_row(x);
	const uint8_t *line;
	size_t n;

	if (p->last.cap == 0)
		buf_init(&p->last, 8192);
	*ret_done = row->out_bytes + row->err_bytes;
	read_log(c, p, row);
	n = p->last.len;
	while (n > 0 && p->last.data[n - 1] == '\n')
		n--;
	line = n == 0 ? NULL : memrchr(p->last.data, '\n', n);
	if (n > 0) {
		line = line == NULL ? p->last.data : line + 1;
		(void)shown_text_tail(message, line, (size_t)(p->last.data + n - line),
				      TOOL_PROGRESS_TEXT);
	}
}

void run_progress_release(struct run_progress *p)
{
	if (p->log > 0)
		fd_close(p->log);
	buf_release(&p->last);
}
