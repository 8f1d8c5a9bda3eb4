/* Lines of kernels, which user code may have written: whatever comes of one is a line of the
 * answer, in ASCII, complete and not empty. The bytes are also tried as output of a program. */
#include "fuzz.h"

#include "incell/interpreter/event_line.h"
#include "incell/interpreter/kernel_protocol.h"

unsigned long fuzz_accepted;

static void check_line(struct buf *b)
{
	struct json_value v;
	struct err e;

	assert(buf_check(b, &e) == 0 && b->len > 2 && b->data[b->len - 1] == '\n');
	for (size_t i = 0; i + 1 < b->len; i++)
		assert(b->data[i] >= 0x20 && b->data[i] < 0x7f);
	assert(json_read(buf_text(b), b->len, 80, &v, &e) == 0 && v.kind == JSON_READ_OBJECT);
	assert(json_read_member(v, "type").kind == JSON_READ_TEXT);
	buf_clear(b);
}

static void check_message(struct buf *b, const struct kernel_message *m)
{
	if (m->type == KERNEL_MESSAGE_OTHER)
		return;
	fuzz_accepted++;
	if (m->type == KERNEL_MESSAGE_STDOUT || m->type == KERNEL_MESSAGE_STDERR) {
		event_line_output(b, "stdout", json_read_member(m->body, "text"));
		check_line(b);
	}
	event_line_result(b, m->body);
	check_line(b);
	event_line_error(b, m->body);
	check_line(b);
	event_line_count(b, m->number);
	check_line(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf b = BUF_INIT(16U << 20);
	char *line = fuzz_copy(data, size);
	struct kernel_message m = kernel_message_read(line, size);

	check_message(&b, &m);
	event_line_bytes(&b, "stderr", line, size);
	check_line(&b);
	buf_release(&b);
	free(line);
	return 0;
}
