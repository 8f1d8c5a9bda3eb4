/* go_zip.c - see go_zip.h and APPNOTE.TXT of PKWARE. Only the directory counts, as for Go; a local
 * header tells where its content begins, and must have the same name length and method. */
#include "go_zip.h"

#include <string.h>

#define END_SIZE 22U
#define HEADER_SIZE 46U
#define LOCAL_SIZE 30U
#define NAME_MAX_BYTES 4096U

static unsigned u16(const uint8_t *p)
{
	return (unsigned)p[0] | (unsigned)p[1] << 8;
}

static uint32_t u32(const uint8_t *p)
{
	return u16(p) | (uint32_t)u16(p + 2) << 16;
}

static int malformed(struct err *e, const char *what)
{
	return err_set(e, ERR_INVALID, "the module's zip: %s", what);
}

static int read_at(const struct go_zip *z, uint64_t at, void *ret, size_t n, struct err *e)
{
	if (at > z->source.size || n > z->source.size - at)
		return malformed(e, "something lies outside of it");
	return z->source.read_at(z->source.arg, at, ret, n, e);
}

int go_zip_open(struct go_zip *z, const struct go_h1_source *source, struct err *e)
{
	uint8_t end[END_SIZE] = { 0 };
	uint32_t size;

	*z = (struct go_zip){ .source = *source };
	buf_init(&z->names, GO_ZIP_NAMES);
	if (source->size < END_SIZE)
		return malformed(e, "too short");
	if (read_at(z, source->size - END_SIZE, end, END_SIZE, e) < 0)
		return -1;
	z->want = u16(end + 10);
	size = u32(end + 12);
	z->directory = z->next = u32(end + 16);
	z->end = source->size - END_SIZE;
	if (u32(end) != 0x06054b50 || u16(end + 20) != 0)
		return malformed(e, "no end of a directory at its end");
	if (u16(end + 4) != 0 || u16(end + 6) != 0 || u16(end + 8) != z->want ||
	    z->want == 0xffff || z->directory + size != z->end)
		return malformed(e, "a directory that is elsewhere, or ZIP64");
	if (z->want > GO_ZIP_FILES)
		return err_set(e, ERR_LIMIT, "the module's zip has more than %u files",
			       GO_ZIP_FILES);
	z->entries = calloc(z->want + 1, sizeof(*z->entries));
	return z->entries == NULL ? err_sys(e, "the module's zip") : 0;
}

void go_zip_release(struct go_zip *z)
{
	free(z->entries);
	buf_release(&z->names);
}

static int read_name(struct go_zip *z, struct go_zip_entry *entry, size_t n, struct err *e)
{
	uint8_t *p;

	if (n == 0 || n > NAME_MAX_BYTES)
		return malformed(e, "a name that is empty or too long");
	p = buf_reserve(&z->names, n + 1, e);
	if (p == NULL || read_at(z, z->next + HEADER_SIZE, p, n, e) < 0)
		return -1;
	p[n] = '\0';
	if (memchr(p, '\0', n) != NULL || memchr(p, '\n', n) != NULL)
		return malformed(e, "a name with a NUL or a new line");
	entry->name = (uint32_t)z->names.len;
	buf_commit(&z->names, n + 1);
	return 0;
}

int go_zip_next(struct go_zip *z, struct err *e)
{
	struct go_zip_entry *entry = &z->entries[z->n];
	uint8_t h[HEADER_SIZE] = { 0 };

	if (z->n == z->want)
		return z->next == z->end ? 0 : malformed(e, "a directory of another size");
	if (read_at(z, z->next, h, HEADER_SIZE, e) < 0)
		return -1;
	entry->deflated = u16(h + 10) == 8;
	entry->packed = u32(h + 20);
	entry->unpacked = u32(h + 24);
	entry->at = u32(h + 42);
	if (u32(h) != 0x02014b50 || (u16(h + 8) & 1) != 0 || (u16(h + 10) & ~8U) != 0)
		return malformed(e, "an entry that is not stored or deflated");
	if (!entry->deflated && entry->packed != entry->unpacked)
		return malformed(e, "a stored entry of two sizes");
	z->content += entry->unpacked;
	if (z->content > GO_ZIP_CONTENT)
		return err_set(e, ERR_LIMIT, "the module's zip unpacks to more than %u MiB",
			       GO_ZIP_CONTENT >> 20);
	if (read_name(z, entry, u16(h + 28), e) < 0)
		return -1;
	z->next += HEADER_SIZE + u16(h + 28) + u16(h + 30) + u16(h + 32);
	z->n++;
	return 1;
}

int go_zip_content(const struct go_zip *z, const struct go_zip_entry *entry, uint64_t *ret,
		   struct err *e)
{
	uint8_t h[LOCAL_SIZE] = { 0 };

	if (read_at(z, entry->at, h, LOCAL_SIZE, e) < 0)
		return -1;
	*ret = entry->at + LOCAL_SIZE + u16(h + 26) + u16(h + 28);
	if (u32(h) != 0x04034b50 || (u16(h + 8) == 8) != entry->deflated || (u16(h + 6) & 1) != 0)
		return malformed(e, "a local header unlike the directory's");
	if (*ret + entry->packed > z->directory)
		return malformed(e, "content that reaches into the directory");
	return 0;
}
