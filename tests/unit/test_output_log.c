/* The log of an execution: what goes in comes out, in order, capped, and whole after any crash. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/output/output_log.h"
#include "daemon/output/output_record.h"
#include "support.h"
#include "test.h"

struct fixture {
	char dir[64];
	int dir_fd;
	int pipe[2];
	struct output_log log;
};

static void set_up(struct fixture *f, uint64_t limit)
{
	(void)snprintf(f->dir, sizeof(f->dir), "/tmp/test_output_log.XXXXXX");
	CHECK(mkdtemp(f->dir) != NULL);
	f->dir_fd = open(f->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(f->dir_fd >= 0 && pipe2(f->pipe, O_CLOEXEC | O_NONBLOCK) == 0);
	output_log_init(&f->log, f->dir_fd, "exe_1", limit);
}

static void tear_down(struct fixture *f)
{
	output_log_release(&f->log);
	(void)unlinkat(f->dir_fd, "exe_1.log", 0);
	(void)rmdir(f->dir);
}

static void say(struct fixture *f, enum output_stream stream, const char *text)
{
	struct err e;

	CHECK(write(f->pipe[1], text, strlen(text)) == (ssize_t)strlen(text));
	CHECK(output_log_move(&f->log, stream, f->pipe[0], 7, &e) == 1);
}

/* Everything there is, as "1:text" or "2:text" or "3:reason" for each piece. */
static void read_all(const struct fixture *f, size_t piece, char *ret, size_t cap)
{
	struct output_chunk c;
	uint64_t cursor = 0;
	uint8_t bytes[256];
	size_t at = 0;
	struct err e;

	ret[0] = '\0';
	while (output_read(f->log.fd, &cursor, &c, bytes, piece, &e) > 0)
		at += (size_t)snprintf(ret + at, cap - at, "%d@%llu:%.*s|", (int)c.stream,
				       (unsigned long long)c.offset, (int)c.len, bytes);
}

static void in_order_with_offsets(void)
{
	struct fixture f;
	char text[512];

	set_up(&f, 1000);
	say(&f, OUTPUT_STDOUT, "one");
	say(&f, OUTPUT_STDERR, "oops");
	say(&f, OUTPUT_STDOUT, "two");
	read_all(&f, 256, text, sizeof(text));
	CHECK(strcmp(text, "1@0:one|2@0:oops|1@3:two|") == 0);
	read_all(&f, 2, text, sizeof(text));
	CHECK(strcmp(text, "1@0:on|1@2:e|2@0:oo|2@2:ps|1@3:tw|1@5:o|") == 0);
	tear_down(&f);
}

static void the_limit_cuts_and_says_so(void)
{
	struct fixture f;
	char text[512];

	set_up(&f, 5);
	say(&f, OUTPUT_STDOUT, "1234567");
	say(&f, OUTPUT_STDERR, "more");
	read_all(&f, 256, text, sizeof(text));
	CHECK(strcmp(text, "1@0:12345|3@0:limit|") == 0);
	CHECK(f.log.cut && f.log.kept == 5 && f.log.written[0] == 7 && f.log.written[1] == 4);
	tear_down(&f);
}

static void nothing_said_makes_no_file(void)
{
	struct fixture f;
	struct err e;
	struct stat st;

	set_up(&f, 5);
	CHECK(output_log_move(&f.log, OUTPUT_STDOUT, f.pipe[0], 7, &e) == 0);
	CHECK(fstatat(f.dir_fd, "exe_1.log", &st, 0) < 0);
	CHECK(output_log_reopen(&f.log, &e) == 0 && f.log.fd < 0);
	tear_down(&f);
}

/* As if the daemon had died with the file at any length: what is read afterwards is a prefix, and
 * writing goes on behind it. */
static void any_length_is_mended(void)
{
	static const char whole[] = "1@0:first|2@0:second|1@5:third|";
	struct fixture f;
	struct stat st;
	char text[512];
	struct err e;

	for (off_t cut = 0;; cut++) {
		struct output_log again;

		set_up(&f, 1000);
		say(&f, OUTPUT_STDOUT, "first");
		say(&f, OUTPUT_STDERR, "second");
		say(&f, OUTPUT_STDOUT, "third");
		CHECK(fstat(f.log.fd, &st) == 0 && ftruncate(f.log.fd, cut) == 0);
		output_log_init(&again, f.dir_fd, "exe_1", 1000);
		CHECK(output_log_reopen(&again, &e) == 0);
		output_log_release(&f.log);
		f.log = again;
		uint64_t said = f.log.written[0] + f.log.written[1];

		say(&f, OUTPUT_STDERR, "on");
		CHECK(f.log.written[0] + f.log.written[1] == said + 2);
		read_all(&f, 256, text, sizeof(text));
		char *end = strstr(text, "on|");

		while (end != NULL && strstr(end + 1, "on|") != NULL)
			end = strstr(end + 1, "on|");
		CHECK(end != NULL && end[3] == '\0'); /* the new one is last, and whole */
		while (end != NULL && end > text && end[-1] != '|')
			end--;
		if (end != NULL)
			*end = '\0';
		/* the last of the old ones may be shorter than it was */
		if (text[0] != '\0')
			text[strlen(text) - 1] = '\0';
		CHECK(strncmp(text, whole, strlen(text)) == 0);
		tear_down(&f);
		if (cut == st.st_size)
			break;
	}
}

static void a_broken_promise_is_corrected(void)
{
	struct fixture f;
	struct output_record r = { .len = 100, .stream = OUTPUT_STDOUT, .time_ms = 1, .offset = 3 };
	struct output_log again;
	struct err e;

	set_up(&f, 1000);
	say(&f, OUTPUT_STDOUT, "abc");
	/* A head for bytes of which none, then two, arrived. */
	for (size_t came = 0; came < 3; came += 2) {
		CHECK(output_record_write(f.log.fd, f.log.size, &r) == 0);
		CHECK(pwrite(f.log.fd, "xy", came, (off_t)(f.log.size + OUTPUT_RECORD_HEAD)) ==
		      (ssize_t)came);
		output_log_init(&again, f.dir_fd, "exe_1", 1000);
		CHECK(output_log_reopen(&again, &e) == 0);
		CHECK(again.written[0] == 3 + came);
		output_log_release(&again);
	}
	tear_down(&f);
}

static void no_room_cuts_and_says_so(void)
{
	struct fixture f;
	char text[512];

	set_up(&f, 1000);
	say(&f, OUTPUT_STDOUT, "one");
	f.log.room = OUTPUT_RECORD_HEAD + 2;
	say(&f, OUTPUT_STDERR, "four");
	f.log.room = 1000; /* too late */
	say(&f, OUTPUT_STDOUT, "more");
	read_all(&f, 256, text, sizeof(text));
	CHECK(strcmp(text, "1@0:one|2@0:fo|3@0:session|") == 0);
	CHECK(f.log.cut && f.log.kept == 5 && f.log.written[0] == 7 && f.log.written[1] == 4);
	tear_down(&f);

	/* Not even a first byte: there is a log all the same, which says it to the next daemon. */
	set_up(&f, 1000);
	f.log.room = OUTPUT_RECORD_HEAD;
	say(&f, OUTPUT_STDOUT, "one");
	read_all(&f, 256, text, sizeof(text));
	CHECK(strcmp(text, "3@0:session|") == 0);
	tear_down(&f);

	/* Of both limits the nearer one. */
	set_up(&f, 2);
	f.log.room = OUTPUT_RECORD_HEAD + 2;
	say(&f, OUTPUT_STDOUT, "one");
	read_all(&f, 256, text, sizeof(text));
	CHECK(strcmp(text, "1@0:on|3@0:limit|") == 0);
	tear_down(&f);
}

static void patience_leaves_it_in_the_pipe(void)
{
	struct fixture f;
	char text[512];
	struct stat st;
	struct err e;

	set_up(&f, 6);
	f.log.wait_for_room = true;
	f.log.room = OUTPUT_RECORD_HEAD;
	say(&f, OUTPUT_STDOUT, "1234567");
	CHECK(fstatat(f.dir_fd, "exe_1.log", &st, 0) < 0 && f.log.written[0] == 0);
	CHECK(output_log_need(&f.log, f.pipe[0]) == OUTPUT_RECORD_HEAD + 6);
	f.log.room = OUTPUT_RECORD_HEAD + 2;
	CHECK(output_log_move(&f.log, OUTPUT_STDOUT, f.pipe[0], 7, &e) == 1);
	CHECK(output_log_need(&f.log, f.pipe[0]) == OUTPUT_RECORD_HEAD + 4);
	CHECK(f.log.size == OUTPUT_RECORD_HEAD + 2 && !f.log.cut);
	/* its own limit does not wait */
	f.log.room = 1000;
	CHECK(output_log_move(&f.log, OUTPUT_STDOUT, f.pipe[0], 7, &e) == 1);
	read_all(&f, 256, text, sizeof(text));
	CHECK(strcmp(text, "1@0:12|1@2:3456|3@0:limit|") == 0 && f.log.written[0] == 7);
	CHECK(output_log_need(&f.log, f.pipe[0]) == 0);
	CHECK(write(f.pipe[1], "x", 1) == 1 && output_log_need(&f.log, f.pipe[0]) == 0);
	tear_down(&f);
}

/* Room was made for three bytes; two more came before they were moved. */
static void what_comes_later_waits(void)
{
	struct fixture f;
	char text[512];
	struct err e;

	set_up(&f, 100);
	CHECK(write(f.pipe[1], "12345", 5) == 5);
	f.log.asked = f.log.room = OUTPUT_RECORD_HEAD + 3;
	CHECK(output_log_move(&f.log, OUTPUT_STDOUT, f.pipe[0], 7, &e) == 1);
	CHECK(!f.log.cut && f.log.written[0] == 3);
	f.log.asked = 0; /* nothing was there when it was asked */
	CHECK(output_log_move(&f.log, OUTPUT_STDOUT, f.pipe[0], 7, &e) == 0);
	CHECK(!f.log.cut && output_log_need(&f.log, f.pipe[0]) == OUTPUT_RECORD_HEAD + 2);
	f.log.asked = f.log.room = OUTPUT_RECORD_HEAD + 2;
	CHECK(output_log_move(&f.log, OUTPUT_STDOUT, f.pipe[0], 7, &e) == 1);
	read_all(&f, 256, text, sizeof(text));
	CHECK_STR(text, "1@0:123|1@3:45|");
	tear_down(&f);
}

static void the_reason_outlives_a_daemon(void)
{
	static const struct {
		uint64_t limit, room;
		const char *why;
	} cases[] = { { 2, 1000, OUTPUT_BY_LIMIT },
		      { 1000, OUTPUT_RECORD_HEAD + 2, OUTPUT_BY_SESSION },
		      { 1000, 1000, "" } };
	struct output_log again;
	struct fixture f;
	struct err e;

	for (size_t i = 0; i < COUNT(cases); i++) {
		set_up(&f, cases[i].limit);
		f.log.room = cases[i].room;
		say(&f, OUTPUT_STDOUT, "one");
		CHECK(strcmp(f.log.why, cases[i].why) == 0);
		output_log_init(&again, f.dir_fd, "exe_1", 1000);
		CHECK(output_log_reopen(&again, &e) == 0 && again.size == f.log.size);
		CHECK(again.cut == f.log.cut && strcmp(again.why, cases[i].why) == 0);
		output_log_release(&again);
		tear_down(&f);
	}
}

static void add(struct fixture *f, enum output_stream stream, const char *text)
{
	output_log_append(&f->log, stream, (const uint8_t *)text, strlen(text), 7);
}

static void bytes_of_no_pipe_are_appended(void)
{
	struct output_log again;
	struct fixture f;
	char text[512];
	struct err e;

	set_up(&f, 10);
	add(&f, OUTPUT_STDOUT, "one");
	add(&f, OUTPUT_RESULT, "{}");
	add(&f, OUTPUT_STDOUT, "");
	CHECK(output_log_need_for(&f.log, 99) == OUTPUT_RECORD_HEAD + 5);
	output_log_init(&again, f.dir_fd, "exe_1", 10); /* the daemon is killed here */
	CHECK(output_log_reopen(&again, &e) == 0 && again.size == f.log.size && again.kept == 5);
	CHECK(again.written[0] == 3 && again.written[2] == 2 && !again.cut);
	output_log_release(&again);
	add(&f, OUTPUT_STDOUT, "123456");
	add(&f, OUTPUT_STDERR, "more");
	read_all(&f, 256, text, sizeof(text));
	CHECK(strcmp(text, "1@0:one|4@0:{}|1@3:12345|3@0:limit|") == 0);
	CHECK(f.log.kept == 10 && f.log.written[0] == 9 && f.log.written[1] == 4);
	CHECK(output_log_need_for(&f.log, 99) == 0);
	tear_down(&f);
}

static void a_log_that_cannot_be_written_is_cut(void)
{
	struct fixture f;

	set_up(&f, 10);
	CHECK(mkdirat(f.dir_fd, "exe_1.log", 0700) == 0);
	add(&f, OUTPUT_STDOUT, "one");
	CHECK(f.log.cut && strcmp(f.log.why, OUTPUT_BY_DISK) == 0 && f.log.size == 0);
	CHECK(f.log.written[0] == 3 && f.log.kept == 0);
	CHECK(unlinkat(f.dir_fd, "exe_1.log", AT_REMOVEDIR) == 0);
	tear_down(&f);
}

/* A log may have a record for each byte: a system call for each would hold up the start of a
 * daemon. Long records between them are passed over. */
static void heads_are_read_together(void)
{
	enum { RECORDS = 20000, LONG = 3 * OUTPUT_HEADS_WINDOW };
	static uint8_t body[LONG];
	struct output_heads heads;
	struct output_record r, one;
	struct output_log again;
	uint64_t at = 0, said = 0;
	struct fixture f;
	struct err e;

	set_up(&f, UINT64_MAX);
	say(&f, OUTPUT_STDOUT, "x");
	for (unsigned i = 0; i < RECORDS; i++) {
		r = (struct output_record){ .len = i % 5000 == 4999 ? LONG : 1 + i % 3,
					    .stream = OUTPUT_STDOUT,
					    .offset = said };
		CHECK(output_record_write(f.log.fd, at, &r) == 0);
		at += OUTPUT_RECORD_HEAD;
		CHECK(pwrite(f.log.fd, body, r.len, (off_t)at) == (ssize_t)r.len);
		at += r.len;
		said += r.len;
	}
	output_heads_begin(&heads, f.log.fd);
	for (uint64_t to = 0; output_heads_read(&heads, to, &r) > 0;
	     to += OUTPUT_RECORD_HEAD + r.len)
		CHECK(output_record_read(f.log.fd, to, &one) == 1 &&
		      memcmp(&r, &one, sizeof(r)) == 0);
	CHECK(heads.reads < RECORDS / 100);
	output_log_init(&again, f.dir_fd, "exe_1", UINT64_MAX);
	CHECK(output_log_reopen(&again, &e) == 0);
	CHECK(again.size == at && again.written[0] == said && again.kept == said);
	output_log_release(&again);
	tear_down(&f);
}

/* All pieces with notes, as read_all(). */
static void read_notes(const struct fixture *f, char *ret, size_t cap)
{
	struct output_chunk c;
	uint64_t cursor = 0;
	uint8_t bytes[256];
	size_t at = 0;
	struct err e;

	ret[0] = '\0';
	while (output_read_all(f->log.fd, &cursor, &c, bytes, sizeof(bytes), &e) > 0)
		at += (size_t)snprintf(ret + at, cap - at, "%d:%.*s|", (int)c.stream, (int)c.len,
				       bytes);
}

static void note(struct fixture *f, enum output_stream stream, const char *text)
{
	output_log_note(&f->log, stream, text, strlen(text), 7);
}

static void notes_are_no_output(void)
{
	struct output_chunk c;
	uint64_t cursor = 0;
	struct fixture f;
	char text[512];
	struct err e;

	set_up(&f, 10);
	note(&f, OUTPUT_SIZE, "80x24");
	say(&f, OUTPUT_STDOUT, "one");
	note(&f, OUTPUT_INPUT, "in");
	note(&f, OUTPUT_SIZE, "9x9");
	note(&f, OUTPUT_INPUT, "x"); /* beyond the limit of notes */
	say(&f, OUTPUT_STDOUT, "two");
	read_all(&f, 64, text, sizeof(text));
	CHECK_STR(text, "1@0:one|1@3:two|");
	read_all(&f, 2, text, sizeof(text));
	CHECK_STR(text, "1@0:on|1@2:e|1@3:tw|1@5:o|");
	read_notes(&f, text, sizeof(text));
	CHECK_STR(text, "5:80x24|1:one|6:in|5:9x9|1:two|");
	CHECK(f.log.written[0] == 6 && f.log.kept == 6 && f.log.noted == 10 && !f.log.cut);
	/* a reader looks behind notes, and goes on from there */
	CHECK(output_look(f.log.fd, &cursor, &c, &e) == 1 && c.len == 3 && c.offset == 0);
	output_skip(&cursor, &c);
	CHECK(output_look(f.log.fd, &cursor, &c, &e) == 1 && c.len == 3 && c.offset == 3);
	output_skip(&cursor, &c);
	CHECK(output_look(f.log.fd, &cursor, &c, &e) == 0);
	/* the next daemon counts the same */
	output_log_release(&f.log);
	output_log_init(&f.log, f.dir_fd, "exe_1", 10);
	CHECK(output_log_reopen(&f.log, &e) == 0);
	CHECK(f.log.written[0] == 6 && f.log.kept == 6 && f.log.noted == 10 && f.log.notes == 0);
	/* what a killed daemon left of a note */
	note(&f, OUTPUT_SIZE, "");
	f.log.limit = 100;
	note(&f, OUTPUT_INPUT, "abcd");
	CHECK(ftruncate(f.log.fd, (off_t)f.log.size - 2) == 0);
	output_log_release(&f.log);
	output_log_init(&f.log, f.dir_fd, "exe_1", 100);
	CHECK(output_log_reopen(&f.log, &e) == 0 && f.log.noted == 12 && f.log.notes == 1);
	say(&f, OUTPUT_STDOUT, "end");
	read_notes(&f, text, sizeof(text));
	CHECK_STR(text, "5:80x24|1:one|6:in|5:9x9|1:two|6:ab|1:end|");
	tear_down(&f);
}

static void notes_in_a_row_are_few(void)
{
	uint64_t cursor = 0, size;
	struct output_chunk c;
	struct fixture f;
	uint8_t byte[8];
	struct err e;

	set_up(&f, 1 << 20);
	for (unsigned i = 0; i < OUTPUT_NOTES_MAX; i++)
		note(&f, OUTPUT_INPUT, "x");
	size = f.log.size;
	note(&f, OUTPUT_INPUT, "x");
	CHECK(f.log.size == size);
	CHECK(output_read(f.log.fd, &cursor, &c, byte, sizeof(byte), &e) == 0);
	say(&f, OUTPUT_STDOUT, "o");
	note(&f, OUTPUT_INPUT, "x");
	CHECK(f.log.size > size + 2 * OUTPUT_RECORD_HEAD);
	CHECK(output_read(f.log.fd, &cursor, &c, byte, sizeof(byte), &e) == 1 && byte[0] == 'o');
	f.log.room = OUTPUT_RECORD_HEAD; /* of the session: no byte fits */
	size = f.log.size;
	note(&f, OUTPUT_INPUT, "x");
	CHECK(f.log.size == size && !f.log.cut);
	tear_down(&f);
}

TEST_MAIN({ "in order, with offsets", in_order_with_offsets },
	  { "notes are no output", notes_are_no_output },
	  { "notes in a row are few", notes_in_a_row_are_few },
	  { "the limit cuts and says so", the_limit_cuts_and_says_so },
	  { "nothing said makes no file", nothing_said_makes_no_file },
	  { "any length is mended", any_length_is_mended },
	  { "a broken promise is corrected", a_broken_promise_is_corrected },
	  { "no room cuts and says so", no_room_cuts_and_says_so },
	  { "patience leaves it in the pipe", patience_leaves_it_in_the_pipe },
	  { "what comes while room is made waits", what_comes_later_waits },
	  { "the reason outlives a daemon", the_reason_outlives_a_daemon },
	  { "bytes of no pipe are appended", bytes_of_no_pipe_are_appended },
	  { "a log that cannot be written is cut", a_log_that_cannot_be_written_is_cut },
	  { "heads are read together", heads_are_read_together })
