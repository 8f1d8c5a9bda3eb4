/* Any stream as what a built-in says: every record is taken with all values in range and written
 * again as the same bytes (but for an error, whose words are made safe), or refused. */
#include "fuzz.h"

#include "lib/wire/file_msg.h"

unsigned long fuzz_accepted;

static void check_more(const struct file_msg_entry *f)
{
	const char *key, *value;
	size_t at = 0, total = 0, pairs = 0;

	assert(*f->abs == '\0' || *f->abs == '/');
	assert(*f->resolved == '\0' || f->type == FILE_MSG_SYMLINK);
	assert(f->target_type < FILE_MSG_TYPES && f->target_mode <= 07777);
	for (; file_meta_next(&f->meta, &at, &key, &value); pairs++)
		total += strlen(key) + strlen(value);
	assert(at == f->meta.len && pairs <= FILE_META_PAIRS_MAX && total <= FILE_META_TOTAL_MAX);
}

static void check_record(const struct file_msg *m, const uint8_t *bytes, size_t len)
{
	uint8_t again[FILE_MSG_MAX];
	size_t n;

	assert(m->kind > 0 && m->kind < FILE_MSG_KINDS);
	n = file_msg_write(m, again);
	if (m->kind == FILE_MSG_ENTRY && bytes[FILE_MSG_HEAD] == 1) { /* written as version 2 */
		assert(n > len && *m->entry.abs == '\0' && m->entry.meta.len == 0);
		return;
	}
	assert(n == len);
	if (m->kind == FILE_MSG_ERROR) {
		assert(m->error.code != ERR_NONE && m->error.code < ERR_CODES);
		assert(m->error.sys >= 0 && m->error.sys <= 4095);
		for (const char *p = m->error.msg; *p != '\0'; p++)
			assert((unsigned char)*p >= 0x20 && *p != 0x7f);
		return;
	}
	assert(memcmp(again, bytes, len) == 0);
	if (m->kind == FILE_MSG_ENTRY) {
		assert(m->entry.type < FILE_MSG_TYPES && m->entry.mode <= 07777 &&
		       strlen(m->entry.path) < FILE_MSG_PATH_MAX &&
		       strlen(m->entry.owner) < FILE_MSG_NAME_MAX);
		check_more(&m->entry);
	}
	if (m->kind == FILE_MSG_EVENT)
		assert(m->event.what < FILE_MSG_WHATS && m->event.is_dir <= 1 &&
		       m->event.has_entry <= 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err e = { 0 };
	size_t at = 0;

	for (;;) {
		uint8_t *exact = fuzz_copy(data + at, size - at);
		struct file_msg m = { .kind = FILE_MSG_KINDS };
		int n = file_msg_next(exact, size - at, &m, &e);

		if (n > 0) {
			fuzz_accepted++;
			check_record(&m, exact, (size_t)n);
			at += (size_t)n;
		} else {
			assert(m.kind == FILE_MSG_KINDS);
			assert(n == 0 ? size - at < FILE_MSG_MAX : e.code == ERR_INVALID);
		}
		free(exact);
		if (n <= 0)
			return 0;
	}
}
