/* Records of a volume's content: what is written is read back, in any pieces; what is malformed is
 * refused as a whole. And the lines that name volumes in a session's mounts. */
#include "lib/wire/content_msg.h"

#include "support.h"
#include "daemon/session/volume_line.h"

static void round_trip(void)
{
	struct content_record r = { .kind = CONTENT_ENTRY,
				    .entry = { .size = 1,
					       .atime_ns = -2,
					       .mtime_ns = 3,
					       .ctime_ns = 4,
					       .type = CONTENT_SYMLINK,
					       .mode = 07777,
					       .uid = 5,
					       .gid = 6,
					       .path = "/a/b",
					       .target = "../c" } },
			      got;
	uint8_t bytes[CONTENT_RECORD_MAX];
	size_t n = content_msg_write(&r, bytes);
	struct err e;

	for (size_t i = 0; i < n; i++)
		CHECK(content_msg_read(bytes, i, &got, &e) == 0);
	CHECK(content_msg_read(bytes, n, &got, &e) == (int)n);
	CHECK(got.kind == CONTENT_ENTRY && got.entry.size == 1 && got.entry.atime_ns == -2);
	CHECK(got.entry.mtime_ns == 3 && got.entry.ctime_ns == 4 && got.entry.mode == 07777);
	CHECK(got.entry.type == CONTENT_SYMLINK && got.entry.uid == 5 && got.entry.gid == 6);
	CHECK_STR(got.entry.path, "/a/b");
	CHECK_STR(got.entry.target, "../c");
	n = content_msg_write(&(struct content_record){ .kind = CONTENT_DATA, .len = 1ULL << 40 },
			      bytes);
	CHECK(content_msg_read(bytes, n, &got, &e) == (int)n && got.len == 1ULL << 40);
	n = content_msg_write(&(struct content_record){ .kind = CONTENT_END }, bytes);
	CHECK(content_msg_read(bytes, n, &got, &e) == (int)n && got.kind == CONTENT_END);
}

static void longest(void)
{
	static struct content_record r = { .kind = CONTENT_ENTRY }, got;
	uint8_t bytes[CONTENT_RECORD_MAX];
	struct err e;
	size_t n;

	memset(r.entry.path, 'p', CONTENT_PATH_MAX - 1);
	memset(r.entry.target, 't', CONTENT_PATH_MAX - 1);
	n = content_msg_write(&r, bytes);
	CHECK(n <= CONTENT_RECORD_MAX && content_msg_read(bytes, n, &got, &e) == (int)n);
	CHECK(memcmp(&r.entry, &got.entry, sizeof(r.entry)) == 0);
}

static void malformed(void)
{
	struct content_record r = { .kind = CONTENT_ENTRY, .entry = { .path = "/x" } }, got;
	uint8_t bytes[CONTENT_RECORD_MAX];
	size_t n = content_msg_write(&r, bytes);
	struct err e;

	for (size_t i = 0; i < n; i++) /* every byte once; it is refused or another valid record */
		for (unsigned bit = 0; bit < 8; bit++) {
			int used;

			bytes[i] ^= (uint8_t)(1U << bit);
			used = content_msg_read(bytes, sizeof(bytes), &got, &e);
			CHECK(used == -1 || (used > 0 && (size_t)used <= sizeof(bytes)));
			bytes[i] ^= (uint8_t)(1U << bit);
		}
	memset(bytes, 0xff, sizeof(bytes));
	CHECK(content_msg_read(bytes, sizeof(bytes), &got, &e) == -1);
	memset(bytes, 0, sizeof(bytes));
	CHECK(content_msg_read(bytes, sizeof(bytes), &got, &e) == -1);
}

static void lines(void)
{
	struct store_volume v = { .id = "0a", .name = "n-1" };
	const char *at =
		"/host\t/m\tro\nvolume:0a:n-1\t/v\trw\nvolume:broken\nvolume:1:b\t/w\tro\n";
	char source[VOLUME_LINE_SOURCE_MAX], id[STORE_ID_MAX];
	struct volume_line got;

	volume_line_write(&v, source);
	CHECK_STR(source, "volume:0a:n-1");
	CHECK(volume_line_is(source) && !volume_line_is("/volume:0a:n-1"));
	CHECK(volume_line_id(source, id));
	CHECK_STR(id, "0a");
	CHECK(volume_line_next(&at, &got) && got.writable);
	CHECK_STR(got.id, "0a");
	CHECK_STR(got.name, "n-1");
	CHECK_STR(got.target, "/v");
	CHECK(volume_line_next(&at, &got) && !got.writable);
	CHECK_STR(got.target, "/w");
	CHECK(!volume_line_next(&at, &got));
	CHECK(volume_line_is_name("A-z_09") && !volume_line_is_name("") &&
	      !volume_line_is_name("a:b") && !volume_line_is_name("a/b"));
}

TEST_MAIN({ "round trip", round_trip }, { "longest", longest }, { "malformed", malformed },
	  { "lines", lines })
