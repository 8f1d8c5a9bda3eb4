/* Output on its way into the log, masked: the last bytes wait in the pipe, whatever they are, and a
 * daemon that dies at any moment neither loses a byte nor says one twice. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#include "daemon/output/output_mask.h"
#include "daemon/output/output_record.h"
#include "support.h"
#include "test.h"

#define SECRET "hunter2-passw0rd"
#define COVERED "****************"

struct fixture {
	char dir[64];
	int dir_fd;
	int pipe[2];
	struct output_log log;
	struct output_mask mask;
	struct mask *m;
};

static void set_up(struct fixture *f, uint64_t limit)
{
	const char *value = SECRET;
	size_t len = strlen(value);
	struct err e;

	*f = (struct fixture){ 0 };
	(void)snprintf(f->dir, sizeof(f->dir), "/tmp/test_output_mask.XXXXXX");
	CHECK(mkdtemp(f->dir) != NULL);
	f->dir_fd = open(f->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(f->dir_fd >= 0 && pipe2(f->pipe, O_CLOEXEC | O_NONBLOCK) == 0);
	output_log_init(&f->log, f->dir_fd, "exe_1", limit);
	f->m = mask_new(&value, &len, 1, NULL, 0, &e);
	CHECK(f->m != NULL);
}

static void tear_down(struct fixture *f)
{
	output_mask_release(&f->mask);
	mask_free(f->m);
	output_log_release(&f->log);
	(void)unlinkat(f->dir_fd, "exe_1.log", 0);
	(void)rmdir(f->dir);
}

static int move(struct fixture *f)
{
	struct err e;

	return output_mask_move(&f->mask, f->m, &f->log, OUTPUT_STDOUT, f->pipe[0], 65536, 7, &e);
}

static void say(struct fixture *f, const char *text)
{
	CHECK(write(f->pipe[1], text, strlen(text)) == (ssize_t)strlen(text));
	CHECK(move(f) == 1);
}

static int in_pipe(const struct fixture *f)
{
	int n = 0;

	CHECK(ioctl(f->pipe[0], FIONREAD, &n) == 0);
	return n;
}

/* All of stdout, without the borders of records, whose offsets are checked. */
static void check_said(const struct fixture *f, const char *want)
{
	struct output_chunk c;
	uint64_t cursor = 0;
	char all[4096];
	size_t at = 0;
	struct err e;

	while (output_read(f->log.fd, &cursor, &c, (uint8_t *)all + at, 64, &e) > 0) {
		if (c.stream == OUTPUT_CUT)
			continue;
		CHECK(c.offset == at);
		at += c.len;
	}
	all[at] = '\0';
	CHECK_STR(all, want);
}

static void flush(struct fixture *f)
{
	output_mask_flush(&f->mask, f->m, &f->log, OUTPUT_STDOUT, f->pipe[0], 7);
}

static void tick(struct fixture *f)
{
	output_mask_tick(&f->mask, f->m, &f->log, OUTPUT_STDOUT, f->pipe[0], 7);
}

static void waits_in_the_pipe(void)
{
	struct fixture f;

	set_up(&f, 1 << 20);
	say(&f, "pass: hunter2");
	tick(&f);
	CHECK(f.log.written[0] == 0);
	CHECK(output_mask_held(&f.mask) == 13 && in_pipe(&f) == 13);
	CHECK(move(&f) == 0); /* nothing new */
	say(&f, "-passw0rd\n");
	tick(&f);
	check_said(&f, "pass: "); /* a value is not parted */
	CHECK(output_mask_held(&f.mask) == 17 && in_pipe(&f) == 17);
	tick(&f);
	check_said(&f, "pass: " COVERED "\n");
	CHECK(output_mask_held(&f.mask) == 0 && in_pipe(&f) == 0);
	say(&f, "hunter2");
	tick(&f);
	tick(&f);
	check_said(&f, "pass: " COVERED "\nhunter2"); /* a part is shown */
	CHECK(in_pipe(&f) == 0);
	say(&f, "-passw0rd."); /* and what completes the value is not */
	flush(&f);
	check_said(&f, "pass: " COVERED "\nhunter2*********.");
	CHECK(f.log.written[0] == strlen("pass: " COVERED "\nhunter2*********."));
	tear_down(&f);
}

/* Right and wrong guesses of a part look the same, and are held for the same time. */
static void tells_nothing_of_parts(void)
{
	for (size_t known = 1; known < strlen(SECRET); known++)
		for (int wrong = 0; wrong < 2; wrong++) {
			char text[64];
			struct fixture f;

			set_up(&f, 1 << 20);
			(void)snprintf(text, sizeof(text), "~%.*s", (int)known, SECRET);
			text[known] = (char)(text[known] ^ wrong);
			say(&f, text);
			tick(&f);
			CHECK(f.log.written[0] == 0 && in_pipe(&f) == (int)known + 1);
			tick(&f);
			CHECK(in_pipe(&f) == 0);
			check_said(&f, text);
			tear_down(&f);
		}
}

static void again_a_byte_at_a_time(void)
{
	static const char text[] = "a hunter2-passw0r hunter2-passw0rdhunter2-passw0rd b";
	struct fixture f;

	set_up(&f, 1 << 20);
	for (const char *p = text; *p != '\0'; p++)
		say(&f, (char[]){ *p, '\0' });
	flush(&f);
	check_said(&f, "a hunter2-passw0r " COVERED COVERED " b");
	tear_down(&f);
}

static void keeps_its_limit(void)
{
	struct fixture f;

	set_up(&f, 10);
	say(&f, "0123456" SECRET "!");
	flush(&f);
	check_said(&f, "0123456***");
	CHECK(f.log.cut && f.log.written[0] == 24 && in_pipe(&f) == 0);
	tear_down(&f);
}

/* As the next daemon finds it, having another memory. */
static void begin_again(struct fixture *f)
{
	struct err e;

	output_mask_release(&f->mask);
	output_log_release(&f->log);
	output_log_init(&f->log, f->dir_fd, "exe_1", 1 << 20);
	CHECK(output_log_reopen(&f->log, &e) == 0);
	output_log_settle(&f->log, OUTPUT_STDERR, -1); /* it was not this one */
	output_log_settle(&f->log, OUTPUT_STDOUT, f->pipe[0]);
}

/* Makes the last record what it was before its bytes were gone from the pipe. */
static void open_last(struct fixture *f, uint64_t at)
{
	struct output_record r;

	CHECK(output_record_read(f->log.fd, at, &r) == 1);
	r.stream |= OUTPUT_RECORD_OPEN;
	CHECK(output_record_write(f->log.fd, at, &r) == 0);
}

static void dies_after_taking(void)
{
	struct fixture f;
	uint64_t at;

	set_up(&f, 1 << 20);
	say(&f, "one ");
	flush(&f);
	at = f.log.size;
	say(&f, "two " SECRET " three ");
	tick(&f);
	say(&f, "hunt");
	tick(&f);
	CHECK(in_pipe(&f) == 4);
	open_last(&f, at);
	begin_again(&f);
	check_said(&f, "one two " COVERED " three ");
	say(&f, "er2-passw0rd.");
	flush(&f);
	check_said(&f, "one two " COVERED " three " COVERED ".");
	tear_down(&f);
}

static void dies_before_taking(void)
{
	static const char two[] = "two " SECRET " three ";
	struct fixture f;
	char rest[64];
	uint64_t at;

	set_up(&f, 1 << 20);
	say(&f, "one ");
	flush(&f);
	at = f.log.size;
	say(&f, two);
	tick(&f);
	say(&f, "hunt");
	tick(&f);
	CHECK(read(f.pipe[0], rest, sizeof(rest)) == 4);
	CHECK(write(f.pipe[1], two, strlen(two)) == (ssize_t)strlen(two)); /* as if it were there */
	CHECK(write(f.pipe[1], "hunt", 4) == 4);
	open_last(&f, at);
	begin_again(&f);
	check_said(&f, "one ");
	CHECK(move(&f) == 1);
	say(&f, "er2-passw0rd.");
	flush(&f);
	check_said(&f, "one two " COVERED " three " COVERED ".");
	tear_down(&f);
}

/* Half a record, and readers while it is open. */
static void dies_while_writing(void)
{
	struct fixture f;
	uint64_t at;

	set_up(&f, 1 << 20);
	say(&f, "one ");
	flush(&f);
	at = f.log.size;
	say(&f, "two,");
	flush(&f);
	CHECK(in_pipe(&f) == 0);
	open_last(&f, at);
	check_said(&f, "one ");
	CHECK(ftruncate(f.log.fd, (off_t)(at + OUTPUT_RECORD_HEAD + 1)) == 0);
	CHECK(write(f.pipe[1], "two,", 4) == 4);
	begin_again(&f);
	check_said(&f, "one ");
	CHECK(move(&f) == 1);
	flush(&f);
	check_said(&f, "one two,");
	tear_down(&f);
}

/* A pipe full of what is held. */
static void does_not_wait_for_ever(void)
{
	char *value = malloc(60001);
	size_t len = 60000;
	struct fixture f;
	struct err e;

	CHECK(value != NULL);
	memset(value, 'a', len);
	value[len - 1] = 'b';
	value[len] = '\0';
	set_up(&f, 1 << 20);
	mask_free(f.m);
	f.m = mask_new((const char *const *)&value, &len, 1, NULL, 0, &e);
	CHECK(f.m != NULL);
	for (int i = 0; i < 40; i++) {
		CHECK(write(f.pipe[1], value, 1000) == 1000);
		CHECK(move(&f) == 1);
	}
	CHECK(in_pipe(&f) == 24576); /* much less than a pipe holds */
	flush(&f);
	CHECK(f.log.written[0] == 40000 && in_pipe(&f) == 0);
	tear_down(&f);
	free(value);
}

TEST_MAIN({ "waits in the pipe", waits_in_the_pipe },
	  { "tells nothing of parts", tells_nothing_of_parts },
	  { "a byte at a time", again_a_byte_at_a_time }, { "keeps its limit", keeps_its_limit },
	  { "dies after taking", dies_after_taking }, { "dies before taking", dies_before_taking },
	  { "dies while writing", dies_while_writing },
	  { "does not wait for ever", does_not_wait_for_ever })
