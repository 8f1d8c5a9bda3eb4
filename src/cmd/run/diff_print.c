#include "cmd/run/diff_print.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/utf8.h"
#include "lib/wire/diff_record.h"

#define RECORD_MAX (300U << 10)
#define LIST_MAX (64U << 20) /* bytes: a cell must not fill its caller's disk with names */

/* As ls -l shows it. */
static void mode_text(uint32_t mode, char ret[11])
{
	static const char bits[] = "rwxrwxrwx";
	static const char types[] = "?pc?d?b?-?l?s???"; /* by the four bits of S_IFMT */

	ret[0] = types[(mode >> 12) & 15];
	for (unsigned i = 0; i < 9; i++) {
		ret[i + 1] = '-';
		if ((mode & (0400U >> i)) != 0)
			ret[i + 1] = bits[i];
	}
	if ((mode & S_ISUID) != 0)
		ret[3] = (mode & 0100) != 0 ? 's' : 'S';
	if ((mode & S_ISGID) != 0)
		ret[6] = (mode & 010) != 0 ? 's' : 'S';
	if ((mode & S_ISVTX) != 0)
		ret[9] = (mode & 01) != 0 ? 't' : 'T';
	ret[10] = '\0';
}

/* File names are the cell's: what could move a terminal's cursor is shown as \xNN. */
static void print_path(const char *path, FILE *to)
{
	size_t left = strlen(path);

	while (left > 0) {
		size_t n = utf8_length((const uint8_t *)path, left);
		unsigned char c = (unsigned char)*path;

		if (n == 0 || c == '\\' || utf8_is_control((const uint8_t *)path, n)) {
			n = n == 0 ? 1 : n;
			for (size_t i = 0; i < n; i++)
				(void)fprintf(to, "\\x%02x", (unsigned char)path[i]);
		} else {
			(void)fwrite(path, 1, n, to);
		}
		path += n;
		left -= n;
	}
}

/* Every refused record ends the list: diff_record_parse() knows exactly the records that the
 * keeper and the built-in diff write. *whole: the end was seen. Nothing may follow it. */
static int print_record(const char *text, FILE *to, bool *whole, struct err *e)
{
	struct diff_record r = { 0 };
	const char *word = "unread";
	char mode[11];

	if (*whole)
		return err_set(e, ERR_INVALID, "records after the end");
	if (diff_record_parse(text, &r, e) < 0)
		return -1;
	*whole = r.kind == 'E';
	if (*whole)
		return 0;
	if (r.kind == 'A')
		word = "added";
	else if (r.kind == 'C')
		word = "changed";
	else if (r.kind == 'D')
		word = "deleted";
	mode_text(r.mode, mode);
	(void)fprintf(to, "%-8s %s %10llu ", word, mode, (unsigned long long)r.size);
	print_path(r.path, to);
	(void)fputc('\n', to);
	return 0;
}

/* Memory holds a few records at a time. The cell chooses the names and their number, so a record
 * and the whole list have bounds. */
int diff_print(int fd, FILE *to, struct err *e)
{
	OWN_MEM char *text = malloc(RECORD_MAX);
	size_t have = 0, total = 0;
	bool whole = false;

	if (text == NULL)
		return err_sys(e, "allocate");
	for (;;) {
		ssize_t n = read(fd, text + have, RECORD_MAX - have);
		char *at = text, *end;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(e, "read");
		have += (size_t)n;
		total += (size_t)n;
		if (total > LIST_MAX)
			return err_set(e, ERR_LIMIT, "the list of changes is longer than %u MiB",
				       LIST_MAX >> 20);
		while ((end = memchr(at, '\0', have - (size_t)(at - text))) != NULL) {
			if (print_record(at, to, &whole, e) < 0)
				return -1;
			at = end + 1;
		}
		have -= (size_t)(at - text);
		memmove(text, at, have);
		if (n == 0)
			break;
		if (have == RECORD_MAX)
			return err_set(e, ERR_LIMIT, "a record is larger than %u bytes",
				       RECORD_MAX);
	}
	if (have > 0)
		return err_set(e, ERR_INVALID, "the list ends within a record");
	if (!whole)
		return err_set(e, ERR_SYSTEM, "the list of changes was cut short");
	if (fflush(to) != 0)
		return err_sys(e, "write");
	return 0;
}
