/* doctor_record.c - findings and results of tests, kept for `cordon report` (doc/audit.md): files
 * of the folder "evidence" in the state directory, each replaced as a whole.
 *
 * The state directory may belong to the server's user, and root calls this. So the folder must be
 * the caller's own, and nothing is written through a link. cordond reads the files. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/doctor/doctor.h"
#include "cmd/run/run_result.h"
#include "lib/base/buf.h"
#include "lib/base/clock.h"
#include "lib/base/err.h"
#include "lib/base/hex.h"
#include "lib/base/io.h"
#include "lib/base/own.h"
#include "lib/base/sha256.h"
#include "lib/json/json_read.h"

/* The folder, and the bounds of a test log: its size, the nesting of a line, and how many failed
 * tests with how many bytes of name are kept. */
#define FOLDER "evidence"
#define LOG_MAX ((off_t)1 << 30)
#define LINE_DEPTH 16
#define FAILED_SHOWN 50
#define NAME_MAX_SHOWN 200
#define SUMMARY_MAX (48U << 10)

/* Return the open folder, made if need be. It is refused unless only the caller can write to it:
 * its owner could exchange a file between two steps. */
static int open_folder(const char *state_dir, struct err *e)
{
	OWN_FD state = open(state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;

	if (state < 0)
		return err_sys(e, "state directory %s", state_dir);
	if (mkdirat(state, FOLDER, 0755) < 0 && errno != EEXIST)
		return err_sys(e, "%s/" FOLDER, state_dir);
	OWN_FD dir = openat(state, FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0 || fstat(dir, &st) < 0)
		return err_sys(e, "%s/" FOLDER, state_dir);
	if (st.st_uid != geteuid() || (st.st_mode & 022) != 0)
		return err_set(e, ERR_INVALID,
			       "%s/" FOLDER ": belongs to another user, or others may write to it",
			       state_dir);
	return TAKE_FD(dir);
}

/* Replace a file as a whole. A reader sees the old or the new text, also after a crash. A ".new"
 * file that an interrupted call left behind is removed first. */
static int doctor_record_put(int dir, const char *name, const char *text, size_t len, struct err *e)
{
	char part[64];

	(void)snprintf(part, sizeof(part), "%s.new", name);
	(void)unlinkat(dir, part, 0);
	OWN_FD fd = openat(dir, part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0 || fchmod(fd, 0644) < 0)
		return err_sys(e, "%s", part);
	if (io_write_all(fd, text, len, e) < 0)
		return -1;
	if (fsync(fd) < 0 || renameat(dir, part, dir, name) < 0)
		return err_sys(e, "%s", name);
	return 0;
}

int doctor_record(const char *state_dir, const char *name, const char *text, size_t len)
{
	struct err e;
	OWN_FD dir = open_folder(state_dir, &e);

	if (dir < 0 || doctor_record_put(dir, name, text, len, &e) < 0) {
		(void)fprintf(stderr, "cordon doctor: %s\n", e.msg);
		return EXIT_CORDON;
	}
	(void)printf("recorded in %s/" FOLDER "/%s\n", state_dir, name);
	return 0;
}

/* ---- results of tests */

/* The results that Meson knows. From BAD_FROM on the test has failed, and its name is kept. */
static const char *const results[] = { "OK",	"EXPECTEDFAIL",	  "SKIP",
				       "FAIL",	"UNEXPECTEDPASS", "TIMEOUT",
				       "ERROR", "INTERRUPT" };
#define BAD_FROM 3 /* from there on a test has failed */

/* Counted while the lines are read. `failed` holds at most FAILED_SHOWN names, nfailed counts
 * all. */
struct summary {
	unsigned tests, with[COUNT(results)];
	struct json failed; /* the list */
	unsigned nfailed;
};

/* One line of the log is one JSON object. A line without name or known result is an error: a
 * report must not count fewer tests than ran. */
static int add_line(struct summary *s, const char *line, size_t len, struct err *e)
{
	struct json_value root, word, name;
	struct buf text = BUF_INIT(NAME_MAX_SHOWN * 8);
	size_t i = 0;
	int read;

	if (json_read(line, len, LINE_DEPTH, &root, e) < 0)
		return -1;
	word = json_read_member(root, "result");
	name = json_read_member(root, "name");
	while (i < COUNT(results) && !json_read_is(word, results[i]))
		i++;
	if (i == COUNT(results) || name.kind != JSON_READ_TEXT)
		return err_set(e, ERR_INVALID, "no name, or no result that is known");
	s->tests++;
	s->with[i]++;
	if (i < BAD_FROM || s->nfailed++ >= FAILED_SHOWN)
		return 0;
	read = json_read_text(name, &text, e);
	if (read == 0)
		json_text(&s->failed, NULL, buf_text(&text));
	buf_release(&text);
	return read;
}

/* The log is a mapped file, so it has no NUL at its end. */
static int add_lines(struct summary *s, const char *text, size_t len, struct err *e)
{
	const char *end = text + len;
	unsigned number = 0;

	while (text < end) {
		const char *line_end = memchr(text, '\n', (size_t)(end - text));
		size_t n = (size_t)((line_end == NULL ? end : line_end) - text);

		number++;
		if (n > 0 && add_line(s, text, n, e) < 0)
			return err_wrap(e, "line %u is not one of Meson's testlog.json", number);
		text += n + (line_end != NULL);
	}
	return s->tests > 0 ? 0 : err_set(e, ERR_INVALID, "it has no results of tests");
}

/* The digest names the log from which the numbers come, so that a reader of the report can check
 * them against the file. */
static int record_summary(const char *state_dir, const struct summary *s, const struct stat *st,
			  const char sha256[])
{
	struct json j;
	int done;

	json_init_heap(&j, SUMMARY_MAX);
	json_open(&j, NULL, '{');
	json_text(&j, "version", CORDON_VERSION);
	json_text(&j, "log_sha256", sha256);
	json_uint(&j, "log_written_ms", (uint64_t)st->st_mtim.tv_sec * 1000);
	json_uint(&j, "tests", s->tests);
	json_open(&j, "results", '{');
	for (size_t i = 0; i < COUNT(results); i++)
		json_uint(&j, results[i], s->with[i]);
	json_close(&j, '}');
	json_uint(&j, "failed_count", s->nfailed);
	json_raw(&j, "failed", s->failed.text);
	json_close(&j, '}');
	done = json_ok(&j) ? doctor_record(state_dir, "tests.json", j.text, j.len) : EXIT_CORDON;
	json_release(&j);
	return done;
}

/* Every refusal of a test log names the file. Return the exit code. */
static int doctor_record_refuse(const char *path, const struct err *e)
{
	(void)fprintf(stderr, "cordon doctor: %s: %s\n", path, e->msg);
	return EXIT_CORDON;
}

/* The whole log is mapped, read line by line and hashed. Its size is bounded, and a device or
 * pipe is refused, because the digest must be that of one file. */
int doctor_record_tests(const char *state_dir, const char *path)
{
	OWN_FD fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct summary s = { .tests = 0 };
	uint8_t hash[SHA256_SIZE];
	char hex[2 * SHA256_SIZE + 1];
	struct err e = { 0 };
	struct stat st;
	void *text;
	int done;

	if (fd < 0 || fstat(fd, &st) < 0) {
		(void)err_sys(&e, "open");
		return doctor_record_refuse(path, &e);
	}
	if (!S_ISREG(st.st_mode) || st.st_size == 0 || st.st_size > LOG_MAX) {
		(void)err_set(&e, ERR_INVALID, "must be a file of 1 byte to 1 GiB");
		return doctor_record_refuse(path, &e);
	}
	text = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (text == MAP_FAILED) {
		(void)err_sys(&e, "map");
		return doctor_record_refuse(path, &e);
	}
	json_init_heap(&s.failed, SUMMARY_MAX / 2);
	json_open(&s.failed, NULL, '[');
	done = add_lines(&s, text, (size_t)st.st_size, &e);
	json_close(&s.failed, ']');
	sha256_of(text, (size_t)st.st_size, hash);
	hex_encode(hash, sizeof(hash), hex);
	(void)munmap(text, (size_t)st.st_size);
	done = done < 0 ? doctor_record_refuse(path, &e) : record_summary(state_dir, &s, &st, hex);
	json_release(&s.failed);
	return done;
}
