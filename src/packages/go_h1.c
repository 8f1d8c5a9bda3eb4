/* go_h1.c - see go_h1.h. Three parts, one after the other: the directory is read, the content of
 * each entry is hashed, the list is sorted and hashed. */
#include "go_h1.h"

#include <string.h>
#include <zlib.h>

#include "go_zip.h"
#include "hex.h"
#include "sha256.h"

#define PIECE (64U << 10)

struct go_h1 {
	struct go_zip zip;
	bool listed, open;	   /* the directory is read; an entry is being hashed */
	size_t nth;		   /* the entry */
	uint64_t at;		   /* of its packed content */
	uint32_t packed, unpacked; /* what is left of it */
	z_stream z;
	struct sha256 hash;
	struct digest result;
	uint8_t in[PIECE], out[PIECE];
};

static int malformed(struct err *e, const char *what)
{
	return err_set(e, ERR_INVALID, "the module's zip: %s", what);
}

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

static int begin_entry(struct go_h1 *h, struct err *e)
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

static void end_entry(struct go_h1 *h)
{
	sha256_end(&h->hash, h->zip.entries[h->nth].hash);
	h->nth++;
	h->open = false;
}

/* More packed bytes into h->in. */
static int fill(struct go_h1 *h, size_t *ret, struct err *e)
{
	size_t n = h->packed < PIECE ? h->packed : PIECE;

	if (n > 0 && h->zip.source.read_at(h->zip.source.arg, h->at, h->in, n, e) < 0)
		return -1;
	h->at += n;
	h->packed -= (uint32_t)n;
	*ret = n;
	return 0;
}

static int step_stored(struct go_h1 *h, struct err *e)
{
	size_t n;

	if (fill(h, &n, e) < 0)
		return -1;
	sha256_add(&h->hash, h->in, n);
	if (h->packed == 0)
		end_entry(h);
	return 0;
}

/* At most PIECE bytes come out. */
static int step_deflated(struct go_h1 *h, struct err *e)
{
	size_t n;
	int rc;

	if (h->z.avail_in == 0) {
		if (fill(h, &n, e) < 0)
			return -1;
		h->z.next_in = h->in;
		h->z.avail_in = (uInt)n;
	}
	h->z.next_out = h->out;
	h->z.avail_out = PIECE;
	rc = inflate(&h->z, Z_NO_FLUSH);
	n = PIECE - h->z.avail_out;
	if ((rc != Z_OK && rc != Z_STREAM_END) || n > h->unpacked)
		return malformed(e, "deflated content that is malformed or too long");
	sha256_add(&h->hash, h->out, n);
	h->unpacked -= (uint32_t)n;
	if (rc != Z_STREAM_END)
		return 0;
	if (h->unpacked != 0 || h->packed != 0 || h->z.avail_in != 0)
		return malformed(e, "deflated content of another size");
	end_entry(h);
	return 0;
}

/* ---- the list */

static int by_name(const void *a, const void *b, void *names)
{
	const struct go_zip_entry *x = a, *y = b;

	return strcmp((const char *)names + x->name, (const char *)names + y->name);
}

static int finish(struct go_h1 *h, struct err *e)
{
	struct go_zip *z = &h->zip;
	char hex[2 * SHA256_SIZE + 1];
	struct sha256 list;

	if (z->n > 1)
		qsort_r(z->entries, z->n, sizeof(*z->entries), by_name, z->names.data);
	sha256_init(&list);
	for (size_t i = 0; i < z->n; i++) {
		const char *name = (const char *)z->names.data + z->entries[i].name;

		if (i > 0 && by_name(&z->entries[i - 1], &z->entries[i], z->names.data) == 0)
			return malformed(e, "a name twice");
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

static int one_step(struct go_h1 *h, struct err *e)
{
	if (!h->open)
		return begin_entry(h, e);
	return h->zip.entries[h->nth].deflated ? step_deflated(h, e) : step_stored(h, e);
}

int go_h1_step(struct go_h1 *h, size_t most, struct err *e)
{
	/* An entry of the directory counts as 1 KiB, a part of content as its most. */
	for (size_t done = 0; done < most && !h->listed; done += 1024) {
		int rc = go_zip_next(&h->zip, e);

		if (rc < 0)
			return -1;
		h->listed = rc == 0;
	}
	if (!h->listed)
		return 1;
	for (size_t done = 0; done < most && h->nth < h->zip.n; done += h->open ? PIECE : 4096) {
		if (one_step(h, e) < 0)
			return -1;
	}
	if (h->nth < h->zip.n)
		return 1;
	return h->result.alg == DIGEST_H1 ? 0 : finish(h, e);
}

void go_h1_result(const struct go_h1 *h, struct digest *ret)
{
	*ret = h->result;
}
