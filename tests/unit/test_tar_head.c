/* Goal: a header that is written is read again as it was, whatever its names and sizes; and of a
 * header from anybody only one with a right checksum and numbers in range is taken. */
#include "lib/wire/tar_head.h"

#include "support.h"

static struct tar_head h, r; /* large */
static char body[2 * TAR_HEAD_PATH_MAX + 128];

static struct tar_head *plain(const char *path)
{
	h = (struct tar_head){ .type = TAR_HEAD_FILE, .mode = 0644, .size = 5, .mtime = 1000 };
	(void)snprintf(h.path, sizeof(h.path), "%s", path);
	return &h;
}

/* A path of n bytes with a slash after every `part` bytes. */
static void fill_path(char *ret, size_t n, size_t part)
{
	for (size_t i = 0; i < n; i++)
		ret[i] = i % (part + 1) == part && i + 1 < n ? '/' : 'p';
	ret[n] = '\0';
}

/* Writes h, extension and all, and reads it into r. */
static void round_trip(const char *name)
{
	uint8_t block[TAR_HEAD_BLOCK];
	bool fits = tar_head_write(&h, block);
	size_t n = tar_head_pax_write(&h, body, sizeof(body));
	struct tar_head_pax pax = { NULL, NULL, false, 0 };
	struct err e = { 0 };

	CHECK_CASE(name, fits == (n == 0));
	CHECK_CASE(name, tar_head_read(block, &r, &e) == 0);
	char *copy = exact_copy(body, n);
	CHECK_CASE(name, tar_head_pax_read(copy, n, &pax, &e) == 0);
	CHECK_CASE(name, strcmp(pax.path != NULL ? pax.path : r.path, h.path) == 0);
	CHECK_CASE(name, strcmp(pax.link != NULL ? pax.link : r.link, h.link) == 0);
	CHECK_CASE(name, (pax.has_size ? pax.size : r.size) == h.size);
	CHECK_CASE(name, r.type == h.type && r.mode == h.mode && r.mtime == h.mtime);
	free(copy);
}

static void lengths(void)
{
	static const size_t parts[] = { 1, 10, 99, 100, 101, 154, 155, 156, 200 };

	for (size_t p = 0; p < COUNT(parts); p++) {
		for (size_t n = 1; n < 400; n++) {
			(void)plain("");
			fill_path(h.path, n, parts[p]);
			round_trip(h.path);
		}
	}
	(void)plain("");
	fill_path(h.path, TAR_HEAD_PATH_MAX - 1, 255);
	h.type = TAR_HEAD_SYMLINK;
	fill_path(h.link, TAR_HEAD_PATH_MAX - 1, 255);
	round_trip("the longest");
}

static void sizes(void)
{
	static const uint64_t all[] = {
		0, 1, 511, 512, 077777777777, 0100000000000, 1ULL << 40, TAR_HEAD_SIZE_MAX
	};

	for (size_t i = 0; i < COUNT(all); i++) {
		plain("f")->size = all[i];
		round_trip("size");
	}
	CHECK(tar_head_padding(0) == 0 && tar_head_padding(1) == 511 &&
	      tar_head_padding(512) == 0 && tar_head_padding(513) == 511);
}

static void put_sum(uint8_t *block)
{
	unsigned sum = 8 * ' ';

	for (size_t i = 0; i < TAR_HEAD_BLOCK; i++)
		sum += i >= 148 && i < 156 ? 0U : block[i];
	(void)snprintf((char *)block + 148, 8, "%06o", sum);
	block[155] = ' ';
}

static int read_with(size_t at, const char *bytes, size_t n)
{
	uint8_t block[TAR_HEAD_BLOCK];
	struct err e = { 0 };
	int rc;

	CHECK(tar_head_write(plain("dir/file"), block));
	memcpy(block + at, bytes, n);
	put_sum(block);
	rc = tar_head_read(block, &r, &e);
	CHECK(rc == 0 || e.code == ERR_INVALID);
	return rc;
}

static void numbers(void)
{
	CHECK(read_with(124, "00000000123\0", 12) == 0 && r.size == 0123);
	CHECK(read_with(124, "777777777777", 12) == 0 && r.size == 0777777777777);
	CHECK(read_with(124, "  123       ", 12) == 0 && r.size == 0123);
	CHECK(read_with(124, "\0\0\0\0\0\0\0\0\0\0\0\0", 12) == 0 && r.size == 0);
	CHECK(read_with(124, "\x80\0\0\0\0\0\0\x01\0\0\0\0", 12) == 0 && r.size == 1ULL << 32);
	CHECK(read_with(124, "\x80\0\0\0\x10\0\0\0\0\0\0\0", 12) == 0);
	CHECK(read_with(124, "\x80\0\0\0\x10\0\0\0\0\0\0\x01", 12) == -1); /* over the maximum */
	CHECK(read_with(124, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 12) == -1);
	CHECK(read_with(124, "12345678 9  ", 12) == -1);
	CHECK(read_with(124, "-1234567890\0", 12) == -1);
	CHECK(read_with(124, "0x123456789\0", 12) == -1);
	CHECK(read_with(100, "0107777\0", 8) == 0 && r.mode == 07777);
	CHECK(read_with(100, "rwxr-xr\0", 8) == -1);
	CHECK(read_with(136, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 12) == 0 &&
	      r.mtime == -1); /* before 1970 */
	CHECK(read_with(136, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xae\x80", 12) == 0 &&
	      r.mtime == -86400);
	CHECK(read_with(136, "\xff\x7f\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 12) == 0 &&
	      r.mtime == -(1LL << 60)); /* absurd */
	CHECK(read_with(136, "\xff\xff\xff\xff\x80\0\0\0\0\0\0\0", 12) == 0 &&
	      r.mtime == -(1LL << 60));
}

static void types(void)
{
	static const struct {
		const char *path;
		char type, want;
	} all[] = {
		{ "f", '0', TAR_HEAD_FILE },	 { "f", '\0', TAR_HEAD_FILE },
		{ "f", '7', TAR_HEAD_FILE },	 { "d/", '\0', TAR_HEAD_DIR },
		{ "d/", '5', TAR_HEAD_DIR },	 { "f", '2', TAR_HEAD_SYMLINK },
		{ "f", 'x', TAR_HEAD_PAX },	 { "f", 'S', 'S' },
		{ "f", '1', TAR_HEAD_HARDLINK },
	};

	for (size_t i = 0; i < COUNT(all); i++) {
		uint8_t block[TAR_HEAD_BLOCK];
		struct err e = { 0 };

		CHECK(tar_head_write(plain(all[i].path), block));
		block[156] = (uint8_t)all[i].type;
		put_sum(block);
		CHECK(tar_head_read(block, &r, &e) == 0);
		CHECK_CASE(all[i].path, r.type == all[i].want);
	}
}

static void prefix_only_in_ustar(void)
{
	uint8_t block[TAR_HEAD_BLOCK];
	struct err e = { 0 };

	CHECK(tar_head_write(plain("f"), block));
	memcpy(block + 345, "a/b", 3);
	put_sum(block);
	CHECK(tar_head_read(block, &r, &e) == 0);
	CHECK_STR(r.path, "a/b/f");
	memcpy(block + 257, "ustar  \0", 8); /* GNU: access times are there */
	put_sum(block);
	CHECK(tar_head_read(block, &r, &e) == 0);
	CHECK_STR(r.path, "f");
	memset(block, 'n', 100); /* fields without NUL */
	memcpy(block + 257,
	       "ustar\0"
	       "00",
	       8);
	memset(block + 345, 'p', 155);
	put_sum(block);
	CHECK(tar_head_read(block, &r, &e) == 0 && strlen(r.path) == 256 && r.path[155] == '/');
}

static void checksums(void)
{
	uint8_t block[TAR_HEAD_BLOCK] = { 0 };
	struct err e = { 0 };
	int sum = 0;

	CHECK(tar_head_read(block, &r, &e) == 1);
	block[511] = 1;
	CHECK(tar_head_read(block, &r, &e) == -1 && e.code == ERR_INVALID);
	CHECK(tar_head_write(plain("f"), block));
	for (size_t i = 0; i < TAR_HEAD_BLOCK; i++) {
		if (i >= 148 && i < 156)
			continue; /* the sum itself may be written in several ways */
		block[i] ^= 0x40;
		CHECK(tar_head_read(block, &r, &e) == -1);
		block[i] ^= 0x40;
	}
	CHECK(tar_head_read(block, &r, &e) == 0);
	block[0] = 0xe4; /* as programs of old summed it */
	for (size_t i = 0; i < TAR_HEAD_BLOCK; i++)
		sum += i >= 148 && i < 156 ? ' ' : (signed char)block[i];
	(void)snprintf((char *)block + 148, 8, "%06o", (unsigned)sum);
	CHECK(tar_head_read(block, &r, &e) == 0);
}

static void pax_records(void)
{
	static const struct {
		const char *text;
		int want; /* enum err_code */
	} all[] = {
		{ "", 0 },
		{ "12 path=abc\n", 0 },
		{ "7 a=\xff\n\n", 0 }, /* values may hold anything */
		{ "6 a=b\n12 path=abc\n", 0 },
		{ "14 comment=xy\n", 0 },
		{ "15 comment=xy\n", ERR_INVALID },
		{ "5 a=\n", 0 },
		{ "11 path=abc\n", ERR_INVALID },
		{ "13 path=abc\n", ERR_INVALID },
		{ "0 a=b\n", ERR_INVALID },
		{ "1 a=b\n", ERR_INVALID },
		{ "3 \n", ERR_INVALID },
		{ "5 =a\n", ERR_INVALID },
		{ "5 ab\n", ERR_INVALID },
		{ "-6 a=b\n", ERR_INVALID },
		{ "99999999999999999999 a=b\n", ERR_INVALID },
		{ "12", ERR_INVALID },
		{ "10 size=1\n", 0 },
		{ "10 size=x\n", ERR_INVALID },
		{ "9 size=\n", ERR_INVALID },
		{ "29 size=99999999999999999999\n", ERR_INVALID },
		{ "22 GNU.sparse.major=1\n", ERR_UNSUPPORTED },
	};

	for (size_t i = 0; i < COUNT(all); i++) {
		size_t n = strlen(all[i].text);
		char *copy = exact_copy(all[i].text, n);
		struct tar_head_pax pax = { .size = 77 };
		struct err e = { 0 };
		int rc = tar_head_pax_read(copy, n, &pax, &e);

		CHECK_CASE(all[i].text, (rc == 0) == (all[i].want == 0));
		CHECK_CASE(all[i].text, rc == 0 || (int)e.code == all[i].want);
		if (rc == 0 && strstr(all[i].text, "path") != NULL)
			CHECK_CASE(all[i].text, pax.path != NULL && strcmp(pax.path, "abc") == 0);
		if (rc == 0 && strstr(all[i].text, "size") != NULL)
			CHECK_CASE(all[i].text, pax.has_size && pax.size == 1);
		free(copy);
	}
}

TEST_MAIN({ "paths of every length", lengths }, { "sizes", sizes }, { "numbers", numbers },
	  { "types", types }, { "a prefix is ustar's", prefix_only_in_ustar },
	  { "checksums", checksums }, { "pax records", pax_records })
