/* Tables of secrets that a cell is given, and lines of a session's: in their bounds; what is read
 * of a line and can be is written as it was read. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/secrets/secret_spec.h"
#include "cell/init/base/secret_table.h"

unsigned long fuzz_accepted;

static void tables(const uint8_t *data, size_t size)
{
	struct secret_table t;
	struct err e;

	if (secret_table_read(data, size, &t, &e) < 0)
		return;
	fuzz_accepted++;
	for (size_t i = 0; i < t.n; i++) {
		const struct secret_table_entry *s = &t.at[i];

		if (s->value < data || s->value + s->len > data + size || s->name[0] == '\0' ||
		    strchr(s->name, '/') != NULL ||
		    (s->kind == 'f' && strchr(s->place, '/') != NULL) ||
		    (s->kind == 'f' && s->place[0] == '.') || (s->mode & ~0777U) > 0)
			abort();
	}
}

static void lines(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	const char *at = text;
	struct secret_spec l, again;
	struct err e;

	if (text == NULL)
		return;
	memcpy(text, data, size);
	text[size] = '\0';
	while (secret_spec_next(&at, &l)) {
		struct buf b = BUF_INIT(8192);
		const char *written;

		if (secret_spec_check(&l, &e) == 0) {
			secret_spec_write(&l, &b);
			written = buf_text(&b);
			if (!secret_spec_next(&written, &again) || *written != '\0' ||
			    strcmp(l.name, again.name) != 0 || strcmp(l.where, again.where) != 0 ||
			    l.way != again.way || l.mode != again.mode)
				abort();
		}
		buf_release(&b);
	}
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	tables(data, size);
	lines(data, size);
	return 0;
}
