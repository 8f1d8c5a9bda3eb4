/* tar_head.c - theory of operation
 *
 * Numbers are octal text or, as GNU tar writes large ones, a big-endian binary number whose first
 * bit is set. A field of text need not end in NUL. The checksum is the sum of all bytes of the
 * block with its own field taken as spaces. Old programs summed signed bytes, so both are taken. */
#include "lib/wire/tar_head.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Offsets and widths of POSIX.1-1988. */
enum {
	NAME = 0,
	NAME_LEN = 100,
	MODE = 100,
	MODE_LEN = 8,
	UID = 108,
	GID = 116,
	ID_LEN = 8,
	SIZE = 124,
	SIZE_LEN = 12,
	MTIME = 136,
	MTIME_LEN = 12,
	SUM = 148,
	SUM_LEN = 8,
	TYPE = 156,
	LINK = 157,
	LINK_LEN = 100,
	MAJOR = 329,
	MINOR = 337,
	DEVICE_LEN = 8,
	MAGIC = 257,
	PREFIX = 345,
	PREFIX_LEN = 155,
};

#define OCTAL_SIZE_MAX 077777777777ULL
#define OCTAL_ID_MAX 07777777ULL
#define ID_NOBODY 65534U

static bool tar_read_binary(const uint8_t *p, size_t n, uint64_t *ret)
{
	uint64_t v = p[0] & 0x7fU;

	for (size_t i = 1; i < n; i++) {
		if (v >> 55 != 0)
			return false;
		v = v << 8 | p[i];
	}
	*ret = v;
	return true;
}

/* Spaces, octal digits, then only spaces and NULs. An empty field is 0. */
bool tar_head_number(const uint8_t *p, size_t n, uint64_t *ret)
{
	uint64_t v = 0;
	size_t i = 0;

	if ((p[0] & 0x80) != 0)
		return tar_read_binary(p, n, ret);
	while (i < n && p[i] == ' ')
		i++;
	for (; i < n && p[i] >= '0' && p[i] <= '7'; i++)
		v = v << 3 | (uint64_t)(p[i] - '0'); /* 12 digits of 3 bits: no overflow */
	for (; i < n; i++)
		if (p[i] != ' ' && p[i] != '\0')
			return false;
	*ret = v;
	return true;
}

static size_t tar_text_length(const uint8_t *p, size_t n)
{
	const uint8_t *end = memchr(p, '\0', n);

	return end == NULL ? n : (size_t)(end - p);
}

static bool tar_checksum_holds(const uint8_t *block)
{
	uint64_t stored;
	int64_t of_unsigned = 0, of_signed = 0;

	for (size_t i = 0; i < TAR_HEAD_BLOCK; i++) {
		uint8_t byte = i >= SUM && i < SUM + SUM_LEN ? ' ' : block[i];

		of_unsigned += byte;
		of_signed += byte < 0x80 ? byte : (int)byte - 0x100;
	}
	return tar_head_number(block + SUM, SUM_LEN, &stored) &&
	       ((int64_t)stored == of_unsigned || (int64_t)stored == of_signed);
}

static bool tar_is_zero(const uint8_t *block)
{
	for (size_t i = 0; i < TAR_HEAD_BLOCK; i++)
		if (block[i] != 0)
			return false;
	return true;
}

/* "prefix/name" where the format has a prefix: GNU's own uses the place otherwise. */
static void tar_read_path(const uint8_t *block, char *ret)
{
	size_t prefix = memcmp(block + MAGIC, "ustar\0", 6) == 0
				? tar_text_length(block + PREFIX, PREFIX_LEN)
				: 0;
	size_t name = tar_text_length(block + NAME, NAME_LEN), at = 0;

	if (prefix > 0) {
		memcpy(ret, block + PREFIX, prefix);
		ret[prefix] = '/';
		at = prefix + 1;
	}
	memcpy(ret + at, block + NAME, name);
	ret[at + name] = '\0';
}

/* Before ustar, a directory was known by the '/' behind its name. Not since: a name cut short,
 * because an extension has the whole, may end in one by chance. */
static char tar_read_type(const uint8_t *block, const char *path)
{
	size_t n = strlen(path);

	if (block[TYPE] != '\0' && block[TYPE] != '0' && block[TYPE] != '7')
		return (char)block[TYPE];
	if (block[TYPE] != '\0' && memcmp(block + MAGIC, "ustar", 5) == 0)
		return TAR_HEAD_FILE;
	return n > 0 && path[n - 1] == '/' ? TAR_HEAD_DIR : TAR_HEAD_FILE;
}

/* Binary numbers of times may be negative: then the first bits are set, as in the machine's own. A
 * time that cannot be read is no reason to refuse a file. */
static int64_t tar_read_time(const uint8_t *p)
{
	uint64_t v = 0;

	if (p[0] == 0xff) {
		for (size_t i = 1; i < MTIME_LEN - 8; i++)
			if (p[i] != 0xff)
				return -(int64_t)TAR_HEAD_SIZE_MAX;
		for (size_t i = MTIME_LEN - 8; i < MTIME_LEN; i++)
			v = v << 8 | p[i];
		return (int64_t)v < -(int64_t)TAR_HEAD_SIZE_MAX ? -(int64_t)TAR_HEAD_SIZE_MAX
								: (int64_t)v;
	}
	if (!tar_head_number(p, MTIME_LEN, &v) || v > TAR_HEAD_SIZE_MAX)
		return 0;
	return (int64_t)v;
}

int tar_head_read(const uint8_t block[TAR_HEAD_BLOCK], struct tar_head *ret, struct err *e)
{
	uint64_t mode, size, major, minor;
	size_t link;

	if (tar_is_zero(block))
		return 1;
	if (!tar_checksum_holds(block))
		return err_set(e, ERR_INVALID, "tar: wrong checksum");
	if (!tar_head_number(block + MODE, MODE_LEN, &mode) ||
	    !tar_head_number(block + SIZE, SIZE_LEN, &size) || size > TAR_HEAD_SIZE_MAX)
		return err_set(e, ERR_INVALID, "tar: malformed mode or size");
	if (!tar_head_number(block + UID, ID_LEN, &ret->uid) ||
	    !tar_head_number(block + GID, ID_LEN, &ret->gid))
		return err_set(e, ERR_INVALID, "tar: malformed owner");
	if (!tar_head_number(block + MAJOR, DEVICE_LEN, &major) ||
	    !tar_head_number(block + MINOR, DEVICE_LEN, &minor))
		major = minor = UINT32_MAX; /* old formats have other things there */
	ret->major = major < UINT32_MAX ? (uint32_t)major : UINT32_MAX;
	ret->minor = minor < UINT32_MAX ? (uint32_t)minor : UINT32_MAX;
	ret->mode = (uint32_t)(mode & 07777);
	ret->size = size;
	ret->mtime = tar_read_time(block + MTIME);
	tar_read_path(block, ret->path);
	link = tar_text_length(block + LINK, LINK_LEN);
	memcpy(ret->link, block + LINK, link);
	ret->link[link] = '\0';
	ret->type = tar_read_type(block, ret->path);
	return 0;
}

static bool tar_read_decimal(const char *p, size_t n, uint64_t max, uint64_t *ret)
{
	uint64_t v = 0;

	if (n == 0 || n > 19)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (p[i] < '0' || p[i] > '9')
			return false;
		v = v * 10 + (uint64_t)(p[i] - '0');
	}
	*ret = v;
	return v <= max;
}

static bool tar_is(const char *key, size_t n, const char *word)
{
	return strlen(word) == n && memcmp(key, word, n) == 0;
}

/* One "keyword=value". Value ends where the record's newline was. */
static int tar_take_record(char *key, char *end, struct tar_head_pax *pax, struct err *e)
{
	char *equals = memchr(key, '=', (size_t)(end - key));
	size_t n = equals == NULL ? 0 : (size_t)(equals - key);
	bool is_path = tar_is(key, n, "path"), is_link = tar_is(key, n, "linkpath");
	const char *value;

	if (n == 0)
		return err_set(e, ERR_INVALID, "tar: pax record without a keyword");
	value = equals + 1;
	if (n >= 10 && memcmp(key, "GNU.sparse", 10) == 0)
		return err_set(e, ERR_UNSUPPORTED, "tar: sparse files are not supported");
	if (is_path || is_link) {
		size_t len = (size_t)(end - value);

		if (len >= TAR_HEAD_PATH_MAX || memchr(value, '\0', len) != NULL)
			return err_set(e, ERR_INVALID, "tar: pax name too long or with NUL");
		*end = '\0';
		if (is_path)
			pax->path = value;
		else
			pax->link = value;
	}
	if (tar_is(key, n, "size")) {
		pax->has_size = tar_read_decimal(value, (size_t)(end - value), TAR_HEAD_SIZE_MAX,
						 &pax->size);
		if (!pax->has_size)
			return err_set(e, ERR_INVALID, "tar: malformed pax size");
	}
	return 0;
}

int tar_head_pax_read(char *body, size_t len, struct tar_head_pax *ret, struct err *e)
{
	struct tar_head_pax pax = { NULL, NULL, false, 0 };

	for (size_t at = 0; at < len;) {
		const char *space = memchr(body + at, ' ', len - at);
		size_t digits = space == NULL ? 0 : (size_t)(space - (body + at));
		uint64_t n;

		/* The number counts itself, the space, the keyword, the value and the newline. */
		if (!tar_read_decimal(body + at, digits, len - at, &n) || n < digits + 2 ||
		    body[at + n - 1] != '\n')
			return err_set(e, ERR_INVALID, "tar: malformed pax record");
		if (tar_take_record(body + at + digits + 1, body + at + n - 1, &pax, e) < 0)
			return -1;
		at += n;
	}
	*ret = pax;
	return 0;
}

static void tar_put_octal(uint8_t *p, size_t width, uint64_t v)
{
	p[width - 1] = '\0';
	for (size_t i = width - 1; i-- > 0; v >>= 3)
		p[i] = (uint8_t)('0' + (v & 7));
}

/* Full text fields have no NUL. */
static void tar_put_text(uint8_t *field, const char *text, size_t n)
{
	memcpy(field, text, n);
}

/* Split a path at a '/' so that both parts fit. False if there is no such place. */
static bool tar_put_path(uint8_t *block, const char *path)
{
	size_t n = strlen(path);

	if (n <= NAME_LEN) {
		tar_put_text(block + NAME, path, n);
		return true;
	}
	for (size_t i = n - NAME_LEN - 1; i <= PREFIX_LEN && i + 1 < n; i++) {
		if (path[i] != '/' || i == 0)
			continue;
		tar_put_text(block + PREFIX, path, i);
		tar_put_text(block + NAME, path + i + 1, n - i - 1);
		return true;
	}
	tar_put_text(block + NAME, path, NAME_LEN);
	block[NAME + NAME_LEN - 1] = '_'; /* not '/', which some take for a directory */
	return false;
}

bool tar_head_write(const struct tar_head *h, uint8_t ret_block[TAR_HEAD_BLOCK])
{
	size_t link = strlen(h->link);
	bool fits;
	unsigned sum = 0;

	memset(ret_block, 0, TAR_HEAD_BLOCK);
	fits = tar_put_path(ret_block, h->path);
	tar_put_octal(ret_block + MODE, MODE_LEN, h->mode & 07777);
	tar_put_octal(ret_block + UID, ID_LEN, h->uid <= OCTAL_ID_MAX ? h->uid : ID_NOBODY);
	tar_put_octal(ret_block + GID, ID_LEN, h->gid <= OCTAL_ID_MAX ? h->gid : ID_NOBODY);
	tar_put_octal(ret_block + SIZE, SIZE_LEN, h->size <= OCTAL_SIZE_MAX ? h->size : 0);
	tar_put_octal(ret_block + MTIME, MTIME_LEN,
		      h->mtime > 0 && h->mtime <= (int64_t)OCTAL_SIZE_MAX ? (uint64_t)h->mtime : 0);
	ret_block[TYPE] = (uint8_t)h->type;
	tar_put_text(ret_block + LINK, h->link, link <= LINK_LEN ? link : LINK_LEN);
	tar_put_text(ret_block + MAGIC,
		     "ustar\0"
		     "00",
		     8);
	memset(ret_block + SUM, ' ', SUM_LEN);
	for (size_t i = 0; i < TAR_HEAD_BLOCK; i++)
		sum += ret_block[i];
	tar_put_octal(ret_block + SUM, SUM_LEN - 1, sum);
	return fits && link <= LINK_LEN && h->size <= OCTAL_SIZE_MAX;
}

/* Append one record, whose length counts its own digits. */
static size_t tar_put_record(char *at, size_t cap, const char *key, const char *value)
{
	size_t rest = strlen(key) + strlen(value) + 3, n = rest + 1;
	int got;

	for (size_t power = 10; power <= n; power *= 10)
		n++;
	got = snprintf(at, cap, "%zu %s=%s\n", n, key, value);
	return got > 0 && (size_t)got < cap ? (size_t)got : 0;
}

size_t tar_head_pax_write(const struct tar_head *h, char *ret_body, size_t cap)
{
	uint8_t scratch[TAR_HEAD_BLOCK];
	char size[24];
	size_t n = 0;

	memset(scratch, 0, sizeof(scratch));
	if (!tar_put_path(scratch, h->path))
		n += tar_put_record(ret_body + n, cap - n, "path", h->path);
	if (strlen(h->link) > LINK_LEN)
		n += tar_put_record(ret_body + n, cap - n, "linkpath", h->link);
	if (h->size > OCTAL_SIZE_MAX) {
		(void)snprintf(size, sizeof(size), "%llu", (unsigned long long)h->size);
		n += tar_put_record(ret_body + n, cap - n, "size", size);
	}
	return n;
}

size_t tar_head_padding(uint64_t size)
{
	return (size_t)((TAR_HEAD_BLOCK - size % TAR_HEAD_BLOCK) % TAR_HEAD_BLOCK);
}

/* ---- records of pax extensions, for archives with attributes, exact times or sparse files */

#define NS 1000000000U

size_t pax_record_put(char *at, size_t cap, const char *key, const void *value, size_t len)
{
	size_t rest = strlen(key) + len + 3, n = rest + 1; /* the length counts its own digits */
	int head;

	for (size_t power = 10; power <= n; power *= 10)
		n++;
	if (n >= cap) /* snprintf writes a NUL, too */
		return 0;
	head = snprintf(at, cap, "%zu %s=", n, key);
	memcpy(at + head, value, len);
	at[n - 1] = '\n';
	return n;
}

size_t pax_record_number(char *at, size_t cap, const char *key, uint64_t value)
{
	char text[24];
	int n = snprintf(text, sizeof(text), "%llu", (unsigned long long)value);

	return pax_record_put(at, cap, key, text, (size_t)n);
}

size_t pax_record_time(char *at, size_t cap, const char *key, int64_t s, uint32_t ns)
{
	char text[48];
	bool negative = s < 0; /* -2 s and 0.75 of a second are written as -1.25 */
	long long whole = negative ? -(s + (ns > 0)) : s;
	int n = snprintf(text, sizeof(text), "%s%lld.%09u", negative ? "-" : "", whole,
			 negative && ns > 0 ? NS - ns : ns);

	return pax_record_put(at, cap, key, text, (size_t)n);
}
