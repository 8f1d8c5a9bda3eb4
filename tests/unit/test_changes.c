/* Goal: the list of changes is read exactly, and no file name of a cell reaches the terminal raw.
 */
#include "lib/wire/diff_record.h"
#include "cmd/run/diff_print.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>

#include "support.h"

#define RECORD_MAX (300U << 10)

static const struct {
	const char *text;
	bool ok;
	char kind;
	uint32_t mode;
	uint64_t size;
	const char *path;
} records[] = {
	{ "A\t100644\t5\t/a", true, 'A', 0100644, 5, "/a" },
	{ "C\t40755\t0\t/", true, 'C', 040755, 0, "/" },
	{ "D\t120777\t18446744073709551615\t/x/y", true, 'D', 0120777, UINT64_MAX, "/x/y" },
	{ "E\t0\t0\t/", true, 'E', 0, 0, "/" },
	{ "T\t0\t0\t//", true, 'T', 0, 0, "//" },
	{ "A\t177777\t007\t/tab\there", true, 'A', 0177777, 7, "/tab\there" },
	{ "A\t0\t0\t/\x1b\xff\n", true, 'A', 0, 0, "/\x1b\xff\n" }, /* any bytes */
	{ "", false, 0, 0, 0, NULL },
	{ "A", false, 0, 0, 0, NULL },
	{ "A\t", false, 0, 0, 0, NULL },
	{ "A\t1", false, 0, 0, 0, NULL },
	{ "A\t1\t", false, 0, 0, 0, NULL },
	{ "A\t1\t1", false, 0, 0, 0, NULL },
	{ "A\t1\t1\t", false, 0, 0, 0, NULL },
	{ "A\t1\t1\ta", false, 0, 0, 0, NULL }, /* not absolute */
	{ "B\t1\t1\t/a", false, 0, 0, 0, NULL },
	{ "a\t1\t1\t/a", false, 0, 0, 0, NULL },
	{ "\t1\t1\t/a", false, 0, 0, 0, NULL },
	{ "AA\t1\t1\t/a", false, 0, 0, 0, NULL },
	{ "A 1\t1\t/a", false, 0, 0, 0, NULL },
	{ "A\t\t1\t/a", false, 0, 0, 0, NULL },
	{ "A\t-1\t1\t/a", false, 0, 0, 0, NULL },
	{ "A\t+1\t1\t/a", false, 0, 0, 0, NULL },
	{ "A\t 1\t1\t/a", false, 0, 0, 0, NULL },
	{ "A\t8\t1\t/a", false, 0, 0, 0, NULL },
	{ "A\t18\t1\t/a", false, 0, 0, 0, NULL },
	{ "A\t0x1\t1\t/a", false, 0, 0, 0, NULL },
	{ "A\t1\t\t/a", false, 0, 0, 0, NULL },
	{ "A\t1\t-1\t/a", false, 0, 0, 0, NULL },
	{ "A\t1\t+1\t/a", false, 0, 0, 0, NULL },
	{ "A\t1\t 1\t/a", false, 0, 0, 0, NULL },
	{ "A\t1\t1x\t/a", false, 0, 0, 0, NULL },
	{ "A\t1\t0x1\t/a", false, 0, 0, 0, NULL },
	{ "A\t1\t1 /a", false, 0, 0, 0, NULL },
	{ "A\t1\t18446744073709551616\t/a", false, 0, 0, 0, NULL },
	{ "A\t1\t99999999999999999999999\t/a", false, 0, 0, 0, NULL },
};

static int parse(const char *text, struct diff_record *ret)
{
	struct err e = { 0 };
	int got = diff_record_parse(text, ret, &e);

	CHECK(got == 0 || (got == -1 && e.code == ERR_INVALID));
	return got;
}

static void reads_records(void)
{
	for (size_t i = 0; i < COUNT(records); i++) {
		struct diff_record r = { .kind = '?' };
		char *exact = exact_copy(records[i].text, strlen(records[i].text) + 1);

		CHECK_CASE(records[i].text, parse(exact, &r) == (records[i].ok ? 0 : -1));
		CHECK_CASE(records[i].text, r.kind == (records[i].ok ? records[i].kind : '?'));
		if (records[i].ok) {
			CHECK_CASE(records[i].text,
				   r.mode == records[i].mode && r.size == records[i].size);
			CHECK_STR(r.path, records[i].path);
		}
		free(exact);
	}
}

/* A mode that does not fit is as malformed as a size that does not. */
static void modes_are_bounded(void)
{
	static const char *const bad[] = { "A\t40000000000\t0\t/a", "A\t40000100644\t0\t/a",
					   "A\t7777777777777777777777777\t0\t/a" };
	struct diff_record r;

	CHECK(parse("A\t37777777777\t0\t/a", &r) == 0 && r.mode == UINT32_MAX);
	for (size_t i = 0; i < COUNT(bad); i++)
		CHECK_CASE(bad[i], parse(bad[i], &r) == -1);
}

static char *out;
static size_t out_len;

/* Prints the list in `bytes`, given in pieces of `step`, into out; the caller frees it. */
static int print_raw(const void *bytes, size_t len, size_t step, struct err *e)
{
	FILE *to = open_memstream(&out, &out_len);
	int ends[2], got;
	pid_t pid;

	CHECK(to != NULL && pipe2(ends, O_CLOEXEC) == 0);
	(void)fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		(void)close(ends[0]);
		for (size_t at = 0; at < len; at += step)
			if (write(ends[1], (const char *)bytes + at,
				  len - at < step ? len - at : step) < 0)
				_exit(1);
		_exit(0);
	}
	(void)close(ends[1]);
	got = diff_print(ends[0], to, e);
	(void)close(ends[0]);
	CHECK(fclose(to) == 0);
	CHECK(waitpid(pid, NULL, 0) == pid);
	return got;
}

/* With the end that says it is whole. */
static int print(const void *bytes, size_t len, size_t step, struct err *e)
{
	static const char end[] = "E\t0\t0\t/";
	char *list = malloc(len + sizeof(end));
	int got;

	CHECK(list != NULL);
	if (len > 0)
		memcpy(list, bytes, len);
	memcpy(list + len, end, sizeof(end));
	got = print_raw(list, len + sizeof(end), step, e);
	free(list);
	return got;
}

static void prints_a_line_for_each(void)
{
	static const char list[] = "A\t100644\t5\t/etc/new\0"
				   "C\t104755\t1234567890123\t/bin/su\0"
				   "D\t40750\t0\t/gone\0"
				   "T\t41777\t0\t/tmp";
	static const char want[] = "added    -rw-r--r--          5 /etc/new\n"
				   "changed  -rwsr-xr-x 1234567890123 /bin/su\n"
				   "deleted  drwxr-x---          0 /gone\n"
				   "unread   drwxrwxrwt          0 /tmp\n";
	static const size_t steps[] = { 1, 2, 7, sizeof(list) };

	for (size_t i = 0; i < COUNT(steps); i++) {
		struct err e = { 0 };

		CHECK(print(list, sizeof(list), steps[i], &e) == 0);
		CHECK_STR(out, want);
		free(out);
	}
}

static void prints_modes_as_ls_does(void)
{
	static const struct {
		const char *mode, *want;
	} cases[] = {
		{ "100000", "----------" }, { "100777", "-rwxrwxrwx" },
		{ "40711", "drwx--x--x" },  { "120777", "lrwxrwxrwx" },
		{ "10600", "prw-------" },  { "140755", "srwxr-xr-x" },
		{ "20666", "crw-rw-rw-" },  { "60660", "brw-rw----" },
		{ "104644", "-rwSr--r--" }, { "102755", "-rwxr-sr-x" },
		{ "102644", "-rw-r-Sr--" }, { "41776", "drwxrwxrwT" },
		{ "107777", "-rwsrwsrwt" }, { "0", "?---------" },
		{ "177777", "?rwsrwsrwt" }, { "37777777777", "?rwsrwsrwt" },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		char list[64];
		struct err e = { 0 };
		int n = snprintf(list, sizeof(list), "A\t%s\t0\t/m", cases[i].mode);

		CHECK(print(list, (size_t)n + 1, 64, &e) == 0);
		CHECK_HAS(cases[i].mode, out, cases[i].want);
		free(out);
	}
}

static const struct {
	const char *path, *want;
} names[] = {
	{ "/plain name~", "/plain name~" },
	{ "/\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "/\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80" },
	{ "/\x1b[2J\x1b]0;title\x07", "/\\x1b[2J\\x1b]0;title\\x07" },
	{ "/a\nadded    -rw-r--r--          0 /fake",
	  "/a\\x0aadded    -rw-r--r--          0 /fake" },
	{ "/a\r\t\b\v\f", "/a\\x0d\\x09\\x08\\x0b\\x0c" },
	{ "/\x7f", "/\\x7f" },
	{ "/\x01\x1f", "/\\x01\\x1f" },
	{ "/\\x1b", "/\\x5cx1b" },	    /* so that nothing is ambiguous */
	{ "/\2332J", "/\\x9b2J" },	    /* CSI as one byte */
	{ "/\302\2332J", "/\\xc2\\x9b2J" }, /* and as UTF-8 */
	{ "/\xc2\x80\xc2\x9f", "/\\xc2\\x80\\xc2\\x9f" },
	{ "/\xe2\x80\xaegpj", "/\\xe2\\x80\\xaegpj" }, /* from right to left */
	{ "/\xc2\xa0", "/\xc2\xa0" },		       /* the first that is no control */
	{ "/\xff\xc0\x80", "/\\xff\\xc0\\x80" },
	{ "/\xed\xa0\x80", "/\\xed\\xa0\\x80" },
	{ "/\xe2\x82", "/\\xe2\\x82" },
	{ "/\xe2\x82\x1b", "/\\xe2\\x82\\x1b" },
	{ "/%s%n", "/%s%n" },
};

static void names_are_safe_to_print(void)
{
	for (size_t i = 0; i < COUNT(names); i++) {
		char list[128];
		struct err e = { 0 };
		int n = snprintf(list, sizeof(list), "A\t100000\t0\t%s", names[i].path);

		CHECK(print(list, (size_t)n + 1, sizeof(list), &e) == 0);
		CHECK(strncmp(out, "added    ----------          0 ", 31) == 0);
		CHECK(out[out_len - 1] == '\n');
		out[out_len - 1] = '\0';
		CHECK_STR(out + 31, names[i].want);
		free(out);
	}
}

/* Every pair of bytes in a name: nothing that a terminal would obey comes out. */
static void no_two_bytes_are_obeyed(void)
{
	static char list[255 * 255 * 16];
	size_t len = 0;
	struct err e = { 0 };

	for (int a = 1; a < 256; a++)
		for (int b = 1; b < 256; b++) {
			const char name[] = { (char)a, (char)b, '\0' };

			len += (size_t)snprintf(list + len, sizeof(list) - len, "A\t0\t0\t/%s",
						name) +
			       1;
		}
	CHECK(print(list, len, 65536, &e) == 0);
	for (size_t i = 0, lines = 0; i < out_len; i++) {
		unsigned char c = (unsigned char)out[i];

		lines += c == '\n';
		CHECK(c == '\n' || (c >= 0x20 && c != 0x7f));
		if (c >= 0x80) /* only whole characters, and of those no controls */
			CHECK(c >= 0xc2 && c <= 0xdf &&
			      (unsigned char)out[i + 1] >= (c == 0xc2 ? 0xa0 : 0x80) &&
			      (unsigned char)out[++i] <= 0xbf);
		if (i + 1 == out_len)
			CHECK(lines == 255 * 255);
	}
	free(out);
}

static void an_empty_list_is_a_list(void)
{
	struct err e = { 0 };

	CHECK(print("", 0, 1, &e) == 0 && out_len == 0);
	free(out);
}

static const struct {
	const char *name, *list;
	size_t len;
	enum err_code code;
} broken[] = {
	{ "ends within a record", "A\t0\t0\t/a\0A\t0\t0\t/b", 17, ERR_INVALID },
	{ "ends at once", "A", 1, ERR_INVALID },
	{ "an empty record", "A\t0\t0\t/a\0\0", 10, ERR_INVALID },
	{ "only a NUL", "\0", 1, ERR_INVALID },
	{ "nonsense", "hello\0", 6, ERR_INVALID },
	{ "nonsense later", "A\t0\t0\t/a\0x\0", 11, ERR_INVALID },
	{ "no end", "A\t0\t0\t/a\0", 9, ERR_SYSTEM },
	{ "nothing at all", "", 0, ERR_SYSTEM },
	{ "an end within", "E\t0\t0\t/\0A\t0\t0\t/a\0", 17, ERR_INVALID },
	{ "two ends", "E\t0\t0\t/\0E\t0\t0\t/\0", 16, ERR_INVALID },
	{ "an end that is none", "E\0", 2, ERR_INVALID },
};

static void broken_lists_are_refused(void)
{
	for (size_t i = 0; i < COUNT(broken); i++) {
		struct err e = { 0 };

		CHECK_CASE(broken[i].name, print_raw(broken[i].list, broken[i].len, 64, &e) == -1);
		CHECK_CASE(broken[i].name, e.code == broken[i].code);
		free(out);
	}
}

static void records_are_bounded(void)
{
	static char list[RECORD_MAX + 100];

	(void)signal(SIGPIPE, SIG_IGN);
	for (size_t len = RECORD_MAX - 1; len <= RECORD_MAX + 1; len++) {
		struct err e = { 0 };

		memset(list, 'n', sizeof(list));
		memcpy(list, "A\t0\t0\t/", 7);
		list[len - 1] = '\0';
		CHECK(print(list, len, 65536, &e) == (len <= RECORD_MAX ? 0 : -1));
		CHECK(len <= RECORD_MAX || e.code == ERR_LIMIT);
		free(out);
	}
}

static void says_why_it_cannot_read_or_write(void)
{
	static const char list[] = "A\t0\t0\t/a\0E\t0\t0\t/";
	struct err e = { 0 };
	FILE *full = fopen("/dev/full", "we");
	int fd = memfd_create("list", MFD_CLOEXEC);

	CHECK(full != NULL && fd >= 0 && write(fd, list, sizeof(list)) == (ssize_t)sizeof(list));
	CHECK(lseek(fd, 0, SEEK_SET) == 0);
	CHECK(diff_print(fd, full, &e) == -1);
	CHECK(e.code == ERR_SYSTEM && e.sys == ENOSPC);
	(void)close(fd);
	CHECK(diff_print(fd, full, &e) == -1);
	CHECK(e.sys == EBADF);
	(void)fclose(full);
}

TEST_MAIN({ "reads records", reads_records }, { "modes are bounded", modes_are_bounded },
	  { "prints a line for each", prints_a_line_for_each },
	  { "prints modes as ls does", prints_modes_as_ls_does },
	  { "names are safe to print", names_are_safe_to_print },
	  { "no two bytes are obeyed", no_two_bytes_are_obeyed },
	  { "an empty list is a list", an_empty_list_is_a_list },
	  { "broken lists are refused", broken_lists_are_refused },
	  { "records are bounded", records_are_bounded },
	  { "says why it cannot read or write", says_why_it_cannot_read_or_write })
