/* go_h1.c - see go_h1.h. Three steps: read the directory, hash the content of each entry, sort and
 * hash the list. */
#include "lib/packages/go_h1.h"

#include <string.h>
#include <zlib.h>

#include "lib/base/hex.h"
#include "lib/base/sha256.h"

/* ---- see go_h1.h and APPNOTE.TXT of PKWARE. Only the directory counts, as in Go. A local
 * header only tells the place of its content, and must have the directory's name length and
 * method. */

#define END_SIZE 22U
#define HEADER_SIZE 46U
#define LOCAL_SIZE 30U
#define NAME_MAX_BYTES 4096U

static unsigned go_zip_u16(const uint8_t *p)
{
	return (unsigned)p[0] | (unsigned)p[1] << 8;
}

static uint32_t go_zip_u32(const uint8_t *p)
{
	return go_zip_u16(p) | (uint32_t)go_zip_u16(p + 2) << 16;
}

static int go_zip_malformed(struct err *e, const char *what)
{
	return err_set(e, ERR_INVALID, "the module's zip: %s", what);
}

/* Every place comes from the zip, so it is checked against the size. */
static int go_zip_read_at(const struct go_zip *z, uint64_t at, void *ret, size_t n, struct err *e)
{
	if (at > z->source.size || n > z->source.size - at)
		return go_zip_malformed(e, "something lies outside of it");
	return z->source.read_at(z->source.arg, at, ret, n, e);
}

/* The end record must be the last bytes: no comment, one disk, no ZIP64. */
int go_zip_open(struct go_zip *z, const struct go_h1_source *source, struct err *e)
{
	uint8_t end[END_SIZE] = { 0 };
	uint32_t size;

	*z = (struct go_zip){ .source = *source };
	buf_init(&z->names, GO_ZIP_NAMES);
	if (source->size < END_SIZE)
		return go_zip_malformed(e, "too short");
	if (go_zip_read_at(z, source->size - END_SIZE, end, END_SIZE, e) < 0)
		return -1;
	z->want = go_zip_u16(end + 10);
	size = go_zip_u32(end + 12);
	z->directory = z->next = go_zip_u32(end + 16);
	z->end = source->size - END_SIZE;
	if (go_zip_u32(end) != 0x06054b50 || go_zip_u16(end + 20) != 0)
		return go_zip_malformed(e, "no end of a directory at its end");
	if (go_zip_u16(end + 4) != 0 || go_zip_u16(end + 6) != 0 ||
	    go_zip_u16(end + 8) != z->want || z->want == 0xffff || z->directory + size != z->end)
		return go_zip_malformed(e, "a directory that is elsewhere, or ZIP64");
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

/* A newline in a name would forge a line of the list that h1 hashes. */
static int go_zip_read_name(struct go_zip *z, struct go_zip_entry *entry, size_t n, struct err *e)
{
	uint8_t *p;

	if (n == 0 || n > NAME_MAX_BYTES)
		return go_zip_malformed(e, "a name that is empty or too long");
	p = buf_reserve(&z->names, n + 1, e);
	if (p == NULL || go_zip_read_at(z, z->next + HEADER_SIZE, p, n, e) < 0)
		return -1;
	p[n] = '\0';
	if (memchr(p, '\0', n) != NULL || memchr(p, '\n', n) != NULL)
		return go_zip_malformed(e, "a name with a NUL or a new line");
	entry->name = (uint32_t)z->names.len;
	buf_commit(&z->names, n + 1);
	return 0;
}

/* The sum of unpacked sizes is bounded before anything is unpacked. */
int go_zip_next(struct go_zip *z, struct err *e)
{
	struct go_zip_entry *entry = &z->entries[z->n];
	uint8_t h[HEADER_SIZE] = { 0 };

	if (z->n == z->want)
		return z->next == z->end ? 0 : go_zip_malformed(e, "a directory of another size");
	if (go_zip_read_at(z, z->next, h, HEADER_SIZE, e) < 0)
		return -1;
	entry->deflated = go_zip_u16(h + 10) == 8;
	entry->packed = go_zip_u32(h + 20);
	entry->unpacked = go_zip_u32(h + 24);
	entry->at = go_zip_u32(h + 42);
	if (go_zip_u32(h) != 0x02014b50 || (go_zip_u16(h + 8) & 1) != 0 ||
	    (go_zip_u16(h + 10) & ~8U) != 0)
		return go_zip_malformed(e, "an entry that is not stored or deflated");
	if (!entry->deflated && entry->packed != entry->unpacked)
		return go_zip_malformed(e, "a stored entry of two sizes");
	z->content += entry->unpacked;
	if (z->content > GO_ZIP_CONTENT)
		return err_set(e, ERR_LIMIT, "the module's zip unpacks to more than %u MiB",
			       GO_ZIP_CONTENT >> 20);
	if (go_zip_read_name(z, entry, go_zip_u16(h + 28), e) < 0)
		return -1;
	z->next += HEADER_SIZE + go_zip_u16(h + 28) + go_zip_u16(h + 30) + go_zip_u16(h + 32);
	z->n++;
	return 1;
}

/* The name is skipped, not compared: the directory has the name that counts. */
int go_zip_content(const struct go_zip *z, const struct go_zip_entry *entry, uint64_t *ret,
		   struct err *e)
{
	uint8_t h[LOCAL_SIZE] = { 0 };

	if (go_zip_read_at(z, entry->at, h, LOCAL_SIZE, e) < 0)
		return -1;
	*ret = entry->at + LOCAL_SIZE + go_zip_u16(h + 26) + go_zip_u16(h + 28);
	if (go_zip_u32(h) != 0x04034b50 || (go_zip_u16(h + 8) == 8) != entry->deflated ||
	    (go_zip_u16(h + 6) & 1) != 0)
		return go_zip_malformed(e, "a local header unlike the directory's");
	if (*ret + entry->packed > z->directory)
		return go_zip_malformed(e, "content that reaches into the directory");
	return 0;
}

#define PIECE (64U << 10)

struct go_h1 {
	struct go_zip zip;
	bool listed, open;	   /* the directory was read, an entry is being hashed */
	size_t nth;		   /* number of the entry */
	uint64_t at;		   /* place of its packed content */
	uint32_t packed, unpacked; /* bytes left of it */
	z_stream z;
	struct sha256 hash;
	struct digest result;
	uint8_t in[PIECE], out[PIECE];
};

static int go_h1_malformed(struct err *e, const char *what)
{
	return err_set(e, ERR_INVALID, "the module's zip: %s", what);
}

/* The source is copied and must stay readable until go_h1_free(). */
struct go_h1 *go_h1_new(const struct go_h1_source *source, struct err *e)
{
	struct go_h1 *h = calloc(1, sizeof(*h));

	if (h == NULL) {
		(void)err_sys(e, "the module's zip");
		return NULL;
	}
	if (inflateInit2(&h->z, -MAX_WBITS) != Z_OK) {
		free(h);
		(void)err_set(e, ERR_SYSTEM, "the module's zip: zlib does not start");
		return NULL;
	}
	if (go_zip_open(&h->zip, source, e) < 0) {
		go_h1_free(h);
		return NULL;
	}
	return h;
}

void go_h1_free(struct go_h1 *h)
{
	if (h == NULL)
		return;
	(void)inflateEnd(&h->z);
	go_zip_release(&h->zip);
	free(h);
}

/* ---- content */

/* The content was found to end before the directory. Its bytes are read in later steps. */
static int go_h1_begin_entry(struct go_h1 *h, struct err *e)
{
	const struct go_zip_entry *entry = &h->zip.entries[h->nth];

	if (go_zip_content(&h->zip, entry, &h->at, e) < 0)
		return -1;
	h->packed = entry->packed;
	h->unpacked = entry->unpacked;
	sha256_init(&h->hash);
	if (inflateReset(&h->z) != Z_OK)
		return err_set(e, ERR_SYSTEM, "the module's zip: zlib does not start again");
	h->z.avail_in = 0;
	h->open = true;
	return 0;
}

/* The hash stays in the entry until the list is made. */
static void go_h1_end_entry(struct go_h1 *h)
{
	sha256_end(&h->hash, h->zip.entries[h->nth].hash);
	h->nth++;
	h->open = false;
}

/* Read more packed bytes into h->in. */
static int go_h1_fill(struct go_h1 *h, size_t *ret, struct err *e)
{
	size_t n = h->packed < PIECE ? h->packed : PIECE;

	if (n > 0 && h->zip.source.read_at(h->zip.source.arg, h->at, h->in, n, e) < 0)
		return -1;
	h->at += n;
	h->packed -= (uint32_t)n;
	*ret = n;
	return 0;
}

/* A stored entry has the same size packed and unpacked, as go_zip_next() checked. */
static int go_h1_step_stored(struct go_h1 *h, struct err *e)
{
	size_t n;

	if (go_h1_fill(h, &n, e) < 0)
		return -1;
	sha256_add(&h->hash, h->in, n);
	if (h->packed == 0)
		go_h1_end_entry(h);
	return 0;
}

/* Unpack at most PIECE bytes. The result must have exactly the size in the directory. */
static int go_h1_step_deflated(struct go_h1 *h, struct err *e)
{
	size_t n;
	int rc;

	if (h->z.avail_in == 0) {
		if (go_h1_fill(h, &n, e) < 0)
			return -1;
		h->z.next_in = h->in;
		h->z.avail_in = (uInt)n;
	}
	h->z.next_out = h->out;
	h->z.avail_out = PIECE;
	rc = inflate(&h->z, Z_NO_FLUSH);
	n = PIECE - h->z.avail_out;
	if ((rc != Z_OK && rc != Z_STREAM_END) || n > h->unpacked)
		return go_h1_malformed(e, "deflated content that is malformed or too long");
	sha256_add(&h->hash, h->out, n);
	h->unpacked -= (uint32_t)n;
	if (rc != Z_STREAM_END)
		return 0;
	if (h->unpacked != 0 || h->packed != 0 || h->z.avail_in != 0)
		return go_h1_malformed(e, "deflated content of another size");
	go_h1_end_entry(h);
	return 0;
}

/* ---- the list */

static int go_h1_by_name(const void *a, const void *b, void *names)
{
	const struct go_zip_entry *x = a, *y = b;

	return strcmp((const char *)names + x->name, (const char *)names + y->name);
}

/* Go hashes one line for each file: "HEX NAME\n". A name must not occur twice, because Go would
 * install only one of the files. */
static int go_h1_finish(struct go_h1 *h, struct err *e)
{
	struct go_zip *z = &h->zip;
	char hex[2 * SHA256_SIZE + 1];
	struct sha256 list;

	if (z->n > 1)
		qsort_r(z->entries, z->n, sizeof(*z->entries), go_h1_by_name, z->names.data);
	sha256_init(&list);
	for (size_t i = 0; i < z->n; i++) {
		const char *name = (const char *)z->names.data + z->entries[i].name;

		if (i > 0 && go_h1_by_name(&z->entries[i - 1], &z->entries[i], z->names.data) == 0)
			return go_h1_malformed(e, "a name twice");
		hex_encode(z->entries[i].hash, SHA256_SIZE, hex);
		sha256_add(&list, hex, sizeof(hex) - 1);
		sha256_add(&list, "  ", 2);
		sha256_add(&list, name, strlen(name));
		sha256_add(&list, "\n", 1);
	}
	h->result.alg = DIGEST_H1;
	sha256_end(&list, h->result.bytes);
	return 0;
}

/* One piece of work on the current entry. */
static int go_h1_one_step(struct go_h1 *h, struct err *e)
{
	if (!h->open)
		return go_h1_begin_entry(h, e);
	return h->zip.entries[h->nth].deflated ? go_h1_step_deflated(h, e)
					       : go_h1_step_stored(h, e);
}

int go_h1_step(struct go_h1 *h, size_t most, struct err *e)
{
	/* An entry of the directory counts as 1 KiB, a part of content as PIECE. */
	for (size_t done = 0; done < most && !h->listed; done += 1024) {
		int rc = go_zip_next(&h->zip, e);

		if (rc < 0)
			return -1;
		h->listed = rc == 0;
	}
	if (!h->listed)
		return 1;
	for (size_t done = 0; done < most && h->nth < h->zip.n; done += h->open ? PIECE : 4096) {
		if (go_h1_one_step(h, e) < 0)
			return -1;
	}
	if (h->nth < h->zip.n)
		return 1;
	return h->result.alg == DIGEST_H1 ? 0 : go_h1_finish(h, e);
}

/* None before go_h1_step() has returned 0. */
void go_h1_result(const struct go_h1 *h, struct digest *ret)
{
	*ret = h->result;
}
