/* Any bytes as a line of QEMU's control channel: what is understood is one of the four kinds, with
 * values inside the line, and the name of an event is plain. */
#include "fuzz.h"

#include "cell/engines/qemu/qmp.h"

unsigned long fuzz_accepted;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *line = fuzz_copy(data, size);
	struct qmp_message m = { .kind = QMP_NONE };
	struct err e = { 0 };
	uint64_t number;

	if (qmp_read_line(line, size, &m, &e) < 0) {
		assert(e.code == ERR_INVALID && e.msg[0] != '\0');
	} else {
		fuzz_accepted++;
		assert(m.kind > QMP_NONE && m.kind <= QMP_EVENT);
		assert(m.value.kind == JSON_READ_NONE ||
		       (m.value.p >= line && m.value.p + m.value.n <= line + size));
		assert(memchr(m.name, '\0', sizeof(m.name)) != NULL);
		assert((m.kind == QMP_EVENT) == (m.name[0] != '\0'));
		(void)json_read_uint(json_read_member(m.value, "fdset-id"), &number);
		(void)json_read_is(json_read_member(m.value, "status"), "paused");
	}
	free(line);
	return 0;
}
