/* Any bytes as the list of what a cell changed: what is printed is one line for each record, UTF-8,
 * and has nothing in it that a terminal would obey. */
#include "fuzz.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/wire/diff_record.h"
#include "cmd/run/diff_print.h"
#include "json_check.h"

unsigned long fuzz_accepted;

static void check_record(const char *text)
{
	struct diff_record r = { .kind = '?' };
	struct err e = { 0 };

	if (diff_record_parse(text, &r, &e) < 0) {
		assert(e.code == ERR_INVALID && r.kind == '?');
		return;
	}
	assert(strchr("ACDTE", r.kind) != NULL && r.kind == text[0]);
	assert(r.path > text && r.path < text + strlen(text) && r.path[0] == '/' &&
	       r.path[-1] == '\t');
}

static void check_output(const char *text, size_t len, size_t records, int result)
{
	const char *end = text + len;
	size_t lines = 0;

	for (const char *p = text; p < end;) {
		unsigned char c = (unsigned char)*p;

		lines += c == '\n';
		assert(c == '\n' || (c >= 0x20 && c != 0x7f));
		if (c < 0x80) {
			p++;
			continue;
		}
		assert(c != 0xc2 || (unsigned char)p[1] >= 0xa0);
		p = json_check_utf8(p, end);
		assert(p != NULL);
	}
	assert(len == 0 || text[len - 1] == '\n');
	/* The last record is the end and no line. */
	assert(result == 0 ? lines + 1 == records : lines <= records);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("list", MFD_CLOEXEC), result;
	char *out = NULL;
	size_t len = 0, records = 0;
	struct err e = { 0 };
	FILE *to = open_memstream(&out, &len);

	assert(fd >= 0 && to != NULL);
	assert(write(fd, data, size) == (ssize_t)size && lseek(fd, 0, SEEK_SET) == 0);
	for (size_t at = 0, n; at < size; at += n + 1) {
		const uint8_t *nul = memchr(data + at, '\0', size - at);
		char *text;

		n = nul == NULL ? size - at : (size_t)(nul - (data + at));
		text = fuzz_text(data + at, n);
		check_record(text);
		free(text);
		records += nul != NULL;
	}
	result = diff_print(fd, to, &e);
	assert((result < 0) == (e.code != ERR_NONE));
	assert(fclose(to) == 0);
	check_output(out, len, records, result);
	fuzz_accepted += result == 0 && records > 0;
	free(out);
	(void)close(fd);
	return 0;
}
