/* Goal: members of archives come out with all that extensions say, from plain and compressed
 * streams; what is malformed is refused. Archives of other programs are in tests/storage. */
#include "storage/tar_member.h"

#include <zlib.h>
#include <zstd.h>

#include "support.h"

#define ARCHIVE_MAX (4 << 20)

static uint8_t archive[ARCHIVE_MAX];
static size_t used;

static void put(const void *bytes, size_t n)
{
	memcpy(archive + used, bytes, n);
	used += n;
}

static void put_padded(const void *bytes, size_t n)
{
	put(bytes, n);
	used += tar_head_padding(n); /* zeros */
}

static void put_head(char type, const char *path, const char *link, uint64_t size)
{
	static struct tar_head h;
	uint8_t block[TAR_HEAD_BLOCK];

	h = (struct tar_head){ .type = type, .mode = 0640, .size = size, .uid = 7, .gid = 70000 };
	(void)snprintf(h.path, sizeof(h.path), "%s", path);
	(void)snprintf(h.link, sizeof(h.link), "%s", link);
	CHECK(tar_head_write(&h, block));
	put(block, sizeof(block));
}

static void put_member(char type, const char *path, const char *body)
{
	put_head(type, path, "", strlen(body));
	put_padded(body, strlen(body));
}

static void put_record(char *records, const char *key, const char *value)
{
	size_t rest = strlen(key) + strlen(value) + 3, n = rest + 1;

	for (size_t power = 10; power <= n; power *= 10)
		n++;
	(void)snprintf(records + strlen(records), 1024, "%zu %s=%s\n", n, key, value);
}

static void start(void)
{
	memset(archive, 0, sizeof(archive));
	used = 0;
}

static void finish(void)
{
	used += 2 * (size_t)TAR_HEAD_BLOCK;
}

struct source {
	const uint8_t *at;
	size_t left, piece;
};

static ssize_t read_source(void *arg, void *ret, size_t cap, struct err *e)
{
	struct source *s = arg;
	size_t n = s->left < cap ? s->left : cap;

	n = n < s->piece ? n : s->piece;
	memcpy(ret, s->at, n);
	s->at += n;
	s->left -= n;
	return (ssize_t)n;
}

static struct source source;
static struct stream_in *in;
static struct tar_reader *tar;
static struct tar_member m;
static struct err e;

static void open_bytes(const uint8_t *bytes, size_t n, size_t piece)
{
	source = (struct source){ bytes, n, piece };
	in = stream_in_new(read_source, &source, UINT64_MAX, true, &e);
	CHECK(in != NULL);
	tar = tar_reader_new(in, &e);
	CHECK(tar != NULL);
}

static void close_all(void)
{
	tar_reader_free(tar);
	stream_in_free(in);
}

static void check_body(const char *want)
{
	char got[256];
	size_t n = 0;
	ssize_t more;

	while ((more = tar_reader_body(tar, got + n, sizeof(got) - n, &e)) > 0)
		n += (size_t)more;
	CHECK(more == 0 && n == strlen(want) && memcmp(got, want, n) == 0);
}

static void make_plain(void)
{
	start();
	put_member(TAR_HEAD_DIR, "d/", "");
	put_member(TAR_HEAD_FILE, "d/a", "hello");
	put_member(TAR_HEAD_FILE, "d/b", "world");
	finish();
}

static void check_plain(void)
{
	uint8_t sum[SHA256_SIZE], want[SHA256_SIZE];

	CHECK(tar_reader_next(tar, &m, &e) == 0 && m.head.type == TAR_HEAD_DIR);
	CHECK(tar_reader_next(tar, &m, &e) == 0);
	CHECK_STR(m.head.path, "d/a");
	CHECK(m.head.uid == 7 && m.head.gid == 70000 && m.head.mode == 0640);
	check_body("hello");
	CHECK(tar_reader_next(tar, &m, &e) == 0); /* its body is passed over */
	CHECK_STR(m.head.path, "d/b");
	CHECK(tar_reader_next(tar, &m, &e) == 1);
	CHECK(stream_in_finish(in, sum, &e) == 0);
	sha256_of(archive, used, want);
	CHECK(memcmp(sum, want, sizeof(sum)) == 0);
}

static void plain_archives(void)
{
	make_plain();
	for (size_t piece = 1; piece < 5000; piece = piece * 3 + 1) {
		open_bytes(archive, used, piece);
		check_plain();
		close_all();
	}
}

static void compressed_archives(void)
{
	static uint8_t packed[ARCHIVE_MAX];
	z_stream z = { 0 };
	size_t n, half;

	make_plain();
	CHECK(deflateInit2(&z, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK);
	z.next_in = archive;
	z.next_out = packed;
	z.avail_in = (uInt)(half = used / 2);
	z.avail_out = sizeof(packed);
	CHECK(deflate(&z, Z_FINISH) == Z_STREAM_END);
	CHECK(deflateReset(&z) == Z_OK); /* a second member */
	z.avail_in = (uInt)(used - half);
	CHECK(deflate(&z, Z_FINISH) == Z_STREAM_END);
	n = sizeof(packed) - z.avail_out;
	CHECK(deflateEnd(&z) == Z_OK);
	open_bytes(packed, n, 7);
	check_plain();
	close_all();
	open_bytes(packed, n - 3, 4096); /* cut off */
	while (tar_reader_next(tar, &m, &e) == 0)
		continue;
	CHECK(stream_in_finish(in, archive, &e) < 0 && e.code == ERR_INVALID);
	close_all();
	make_plain();
	n = ZSTD_compress(packed, sizeof(packed), archive, used, 3);
	CHECK(!ZSTD_isError(n));
	open_bytes(packed, n, 11);
	check_plain();
	close_all();
}

static void a_bomb_is_noticed(void)
{
	static uint8_t packed[4U << 20], zeros[1U << 20], out[65536];
	z_stream z = { 0 };
	ssize_t n;

	CHECK(deflateInit2(&z, 9, Z_DEFLATED, 16 + MAX_WBITS, 9, Z_DEFAULT_STRATEGY) == Z_OK);
	z.next_out = packed;
	z.avail_out = sizeof(packed);
	for (unsigned i = 0; i < 256; i++) {
		z.next_in = zeros;
		z.avail_in = sizeof(zeros);
		CHECK(deflate(&z, i == 255 ? Z_FINISH : Z_NO_FLUSH) != Z_STREAM_ERROR);
	}
	open_bytes(packed, sizeof(packed) - z.avail_out, 65536);
	(void)deflateEnd(&z);
	while ((n = stream_in_read(in, out, sizeof(out), &e)) > 0)
		continue;
	CHECK(n < 0 && e.code == ERR_LIMIT && strstr(e.msg, "100 times") != NULL);
	CHECK(stream_in_total(in) < (110U << 20));
	close_all();
}

static void extensions(void)
{
	char records[8192] = "", name[300];

	memset(name, 'n', 299);
	name[299] = '\0';
	start();
	put_record(records, "path", name);
	put_record(records, "uid", "123456");
	put_record(records, "mtime", "12.5");
	put_record(records, "SCHILY.xattr.user.x", "v=1");
	put_record(records, "SCHILY.xattr.user.x", "v=2");
	put_record(records, "comment", "nothing");
	put_member(TAR_HEAD_PAX, "PaxHeader", records);
	put_member(TAR_HEAD_FILE, "short", "body");
	put_member(TAR_HEAD_LONG_NAME, "././@LongLink", "long/name");
	put_member(TAR_HEAD_LONG_LINK, "././@LongLink", "long/link");
	put_head(TAR_HEAD_HARDLINK, "x", "y", 0);
	put_member(TAR_HEAD_PAX_GLOBAL, "g", "11 path=xx\n");
	put_member(TAR_HEAD_FILE, "plain", "");
	finish();
	open_bytes(archive, used, 512);
	CHECK(tar_reader_next(tar, &m, &e) == 0);
	CHECK_STR(m.head.path, name);
	CHECK(m.head.uid == 123456 && m.head.mtime == 12 && m.mtime_ns == 500000000);
	CHECK(m.nxattrs == 1 && m.xattrs[0].len == 3 && memcmp(m.xattrs[0].value, "v=2", 3) == 0);
	CHECK_STR(m.xattrs[0].name, "user.x");
	check_body("body");
	CHECK(tar_reader_next(tar, &m, &e) == 0 && m.head.type == TAR_HEAD_HARDLINK);
	CHECK_STR(m.head.path, "long/name");
	CHECK_STR(m.head.link, "long/link");
	CHECK(m.nxattrs == 0);
	CHECK(tar_reader_next(tar, &m, &e) == 0);
	CHECK_STR(m.head.path, "plain");
	CHECK(tar_reader_next(tar, &m, &e) == 1);
	close_all();
}

static void sparse_files(void)
{
	char records[1024] = "", body[TAR_HEAD_BLOCK + 8] = "2\n100\n5\n1000\n3\n";

	start();
	put_record(records, "GNU.sparse.major", "1");
	put_record(records, "GNU.sparse.minor", "0");
	put_record(records, "GNU.sparse.name", "real");
	put_record(records, "GNU.sparse.realsize", "2000");
	put_member(TAR_HEAD_PAX, "PaxHeader", records);
	memcpy(body + TAR_HEAD_BLOCK, "helloabc", 8);
	put_head(TAR_HEAD_FILE, "GNUSparseFile.0/real", "", sizeof(body));
	put_padded(body, sizeof(body));
	records[0] = '\0';
	put_record(records, "GNU.sparse.size", "50");
	put_record(records, "GNU.sparse.map", "0,2,10,1");
	put_member(TAR_HEAD_PAX, "PaxHeader", records);
	put_member(TAR_HEAD_FILE, "old", "xyz");
	finish();
	open_bytes(archive, used, 4096);
	CHECK(tar_reader_next(tar, &m, &e) == 0 && m.is_sparse && m.real_size == 2000);
	CHECK_STR(m.head.path, "real");
	CHECK(m.head.size == 8 && m.npieces == 2 && m.pieces[1].offset == 1000);
	check_body("helloabc");
	CHECK(tar_reader_next(tar, &m, &e) == 0 && m.is_sparse && m.real_size == 50);
	CHECK(m.npieces == 2 && m.pieces[1].offset == 10 && m.pieces[1].len == 1);
	check_body("xyz");
	CHECK(tar_reader_next(tar, &m, &e) == 1);
	close_all();
}

static void malformed(const char *records, const char *body)
{
	start();
	put_member(TAR_HEAD_PAX, "PaxHeader", records);
	put_member(TAR_HEAD_FILE, "x", body);
	finish();
	open_bytes(archive, used, 4096);
	CHECK_CASE(records, tar_reader_next(tar, &m, &e) < 0);
	close_all();
}

static void malformed_extensions(void)
{
	static const char *const cases[] = {
		"5 a=b\n",			 /* wrong length */
		"6 =bc\n",			 /* no keyword */
		"99 path=x\n",			 /* longer than the body */
		"10 size=-1\n",			 /* not a number */
		"22 GNU.sparse.major=2\n",	 /* a version of the future */
		"25 GNU.sparse.map=0,2,1\n",	 /* half a pair */
		"27 GNU.sparse.map=5,1,3,1\n",	 /* not in order */
		"26 GNU.sparse.realsize=1\n",	 /* shorter than its content */
		"28 GNU.sparse.numbytes=9999\n", /* without an offset */
	};

	for (size_t i = 0; i < COUNT(cases); i++)
		malformed(cases[i], "content");
	make_plain();
	open_bytes(archive, used - 2 * (size_t)TAR_HEAD_BLOCK, 4096); /* no end marker */
	while (tar_reader_next(tar, &m, &e) == 0)
		continue;
	CHECK(e.code == ERR_INVALID && strstr(e.msg, "end marker") != NULL);
	close_all();
}

/* Is a member taken that has so many attributes, or these records, or extensions before it? */
static bool member_is_taken(const char *records, size_t len, unsigned long_names)
{
	bool taken;

	start();
	for (unsigned i = 0; i < long_names; i++)
		put_member(TAR_HEAD_LONG_NAME, "././@LongLink", "long/name");
	put_head(TAR_HEAD_PAX, "PaxHeader", "", len);
	put_padded(records, len);
	put_member(TAR_HEAD_FILE, "x", "body");
	finish();
	open_bytes(archive, used, 65536);
	taken = tar_reader_next(tar, &m, &e) == 0;
	close_all();
	return taken;
}

static void bounds(void)
{
	static char records[8192];
	char name[300] = "SCHILY.xattr.", text[32];

	for (unsigned more = 0; more < 2; more++) {
		records[0] = '\0';
		for (unsigned i = 0; i < TAR_MEMBER_XATTRS_MAX + more; i++) {
			(void)snprintf(text, sizeof(text), "SCHILY.xattr.user.%u", i);
			put_record(records, text, "v");
		}
		CHECK(member_is_taken(records, strlen(records), 0) == (more == 0));
		CHECK(more == 0 || strstr(e.msg, "more than 64 attributes") != NULL);
		records[0] = '\0';
		memset(name + 13, 'n', 255 + more);
		name[13 + 255 + more] = '\0';
		put_record(records, name, "v");
		CHECK(member_is_taken(records, strlen(records), 0) == (more == 0));
		CHECK(member_is_taken("6 a=b\n", 6, 15 + more) == (more == 0));
		CHECK(more == 0 || strstr(e.msg, "too many extensions") != NULL);
	}
}

static void bytes_of_records(void)
{
	static char records[TAR_MEMBER_PAX_MAX + 2];

	for (unsigned more = 0; more < 2; more++) {
		int n = snprintf(records, sizeof(records),
				 "%u comment=", TAR_MEMBER_PAX_MAX + more);

		memset(records + n, 'c', TAR_MEMBER_PAX_MAX + more - (size_t)n);
		records[TAR_MEMBER_PAX_MAX + more - 1] = '\n';
		CHECK(member_is_taken(records, TAR_MEMBER_PAX_MAX + more, 0) == (more == 0));
		CHECK(more == 0 || strstr(e.msg, "more than 1 MiB") != NULL);
	}
}

/* Pieces without content, in a map of version 1.0. */
static void pieces_of_sparse_files(void)
{
	static char map[3 << 20];

	for (unsigned more = 0; more < 2; more++) {
		char records[1024] = "";
		size_t n = (size_t)snprintf(map, 32, "%u\n", TAR_MEMBER_SPARSE_MAX + more), end;

		for (unsigned i = 0; i < TAR_MEMBER_SPARSE_MAX + more; i++)
			n += (size_t)snprintf(map + n, 32, "%u\n0\n", i);
		end = n + tar_head_padding(n);
		memset(map + n, 0, end - n);
		start();
		put_record(records, "GNU.sparse.major", "1");
		put_record(records, "GNU.sparse.minor", "0");
		put_record(records, "GNU.sparse.name", "real");
		put_record(records, "GNU.sparse.realsize", "1000000");
		put_member(TAR_HEAD_PAX, "PaxHeader", records);
		put_head(TAR_HEAD_FILE, "x", "", end);
		put(map, end);
		finish();
		open_bytes(archive, used, 65536);
		CHECK((tar_reader_next(tar, &m, &e) == 0) == (more == 0));
		CHECK(more == 0 ? m.npieces == TAR_MEMBER_SPARSE_MAX
				: strstr(e.msg, "more than 262144 pieces") != NULL);
		close_all();
	}
}

TEST_MAIN({ "plain archives", plain_archives }, { "compressed archives", compressed_archives },
	  { "a bomb is noticed", a_bomb_is_noticed }, { "extensions", extensions },
	  { "sparse files", sparse_files }, { "malformed extensions", malformed_extensions },
	  { "bounds", bounds }, { "bytes of records", bytes_of_records },
	  { "pieces of sparse files", pieces_of_sparse_files })
