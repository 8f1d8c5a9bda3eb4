/* What E2B's streams read of a log: all of both streams, in pieces of a bounded number of records.
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/output/output_record.h"
#include "front/e2b/envd/process_piece.h"
#include "test.h"

struct log {
	int fd;
	uint64_t size;
};

static struct log new_log(void)
{
	struct log l = { .fd = memfd_create("log", MFD_CLOEXEC) };

	CHECK(l.fd >= 0);
	return l;
}

static void say(struct log *l, enum output_stream stream, const char *text)
{
	struct output_record r = { .len = (uint32_t)strlen(text), .stream = stream };

	CHECK(output_record_write(l->fd, l->size, &r) == 0);
	CHECK(pwrite(l->fd, text, r.len, (off_t)(l->size + OUTPUT_RECORD_HEAD)) == (ssize_t)r.len);
	l->size += OUTPUT_RECORD_HEAD + r.len;
}

static uint8_t bytes[4096];

/* Results alone end a call, too, and cost as much as what is sent. */
static void results_are_passed_over_in_pieces(void)
{
	struct log l = new_log();
	uint64_t cursor = 0;
	enum output_stream stream = OUTPUT_STDOUT;
	size_t n, spent = 0;
	unsigned calls = 0;

	for (int i = 0; i < 10 * PROCESS_PIECE_RECORDS; i++)
		say(&l, OUTPUT_RESULT, "x");
	say(&l, OUTPUT_STDERR, "end");
	while (process_piece_read(l.fd, &cursor, bytes, sizeof(bytes), &stream, &n, &spent) ==
	       PROCESS_PIECE_PASSED)
		calls++;
	CHECK(calls == 10);
	CHECK(spent >= 10UL * PROCESS_PIECE_RECORDS * OUTPUT_READ_COST);
	CHECK(stream == OUTPUT_STDERR && n == 3 && memcmp(bytes, "end", 3) == 0);
	CHECK(process_piece_read(l.fd, &cursor, bytes, sizeof(bytes), &stream, &n, &spent) ==
	      PROCESS_PIECE_NONE);
	(void)close(l.fd);
}

static void short_records_cost_more_than_their_bytes(void)
{
	struct log l = new_log();
	uint64_t cursor = 0;
	enum output_stream stream = OUTPUT_STDOUT;
	size_t n, all = 0, spent = 0;

	for (int i = 0; i < 3 * PROCESS_PIECE_RECORDS; i++)
		say(&l, OUTPUT_STDOUT, "x");
	while (process_piece_read(l.fd, &cursor, bytes, sizeof(bytes), &stream, &n, &spent) ==
	       PROCESS_PIECE_DATA) {
		CHECK(n <= PROCESS_PIECE_RECORDS);
		all += n;
	}
	CHECK(all == 3 * PROCESS_PIECE_RECORDS && spent >= all * OUTPUT_READ_COST);
	(void)close(l.fd);
}

/* Each message is of one stream; results between records do not divide it. */
static void streams_are_not_mixed(void)
{
	struct log l = new_log();
	uint64_t cursor = 0;
	enum output_stream stream = OUTPUT_STDERR;
	size_t n, spent = 0;

	say(&l, OUTPUT_STDOUT, "a");
	say(&l, OUTPUT_RESULT, "{}");
	say(&l, OUTPUT_STDOUT, "b");
	say(&l, OUTPUT_STDERR, "c");
	say(&l, OUTPUT_CUT, OUTPUT_BY_LIMIT);
	CHECK(process_piece_read(l.fd, &cursor, bytes, sizeof(bytes), &stream, &n, &spent) ==
	      PROCESS_PIECE_DATA);
	CHECK(stream == OUTPUT_STDOUT && n == 2 && memcmp(bytes, "ab", 2) == 0);
	CHECK(process_piece_read(l.fd, &cursor, bytes, sizeof(bytes), &stream, &n, &spent) ==
	      PROCESS_PIECE_DATA);
	CHECK(stream == OUTPUT_STDERR && n == 1 && bytes[0] == 'c');
	CHECK(process_piece_read(l.fd, &cursor, bytes, sizeof(bytes), &stream, &n, &spent) ==
	      PROCESS_PIECE_CUT);
	(void)close(l.fd);
}

TEST_MAIN({ "results are passed over in pieces", results_are_passed_over_in_pieces },
	  { "short records cost more than their bytes", short_records_cost_more_than_their_bytes },
	  { "streams are not mixed", streams_are_not_mixed })
