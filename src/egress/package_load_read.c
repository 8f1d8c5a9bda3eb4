/* package_load_read.c - reads a document into facts, and compares them with those that the view
 * has, piece by piece; see package_load.c. */
#include <unistd.h>

#include "package_load_private.h"

#define PIECE ((size_t)64 * 1024)
#define PIECES 2		    /* in one call */
#define PACKED_PIECE ((size_t)4096) /* of gzip: up to a hundred times as much comes out */

/* 1: there is more; 0: all was read; -1: it cannot be read. */
static int read_piece(struct package_load *l, struct err *e)
{
	static uint8_t piece[PIECE];
	struct package_document *d = l->doc;
	size_t most = l->view->doc_kind == DOC_APT_PACKAGES ? PACKED_PIECE : sizeof(piece);
	ssize_t n = pread(d->fd, piece, most, (off_t)l->at);

	if (n < 0 || (n == 0 && l->at < d->size))
		return err_set(e, ERR_SYSTEM, "it is shorter than it was");
	if (n == 0) {
		int more = package_meta_end(d->meta, e);

		if (more != 0)
			return more;
		d->raw.alg = DIGEST_SHA256;
		sha256_end(&l->hasher, d->raw.bytes);
		return 0;
	}
	l->at += (uint64_t)n;
	sha256_add(&l->hasher, piece, (size_t)n);
	return package_meta_feed(d->meta, piece, (size_t)n, e) < 0 ? -1 : 1;
}

/* Facts grow as the registry likes: they count as documents do. */
static int count_facts(struct package_load *l, struct err *e)
{
	size_t now = package_meta_memory(l->doc->meta), before = l->facts;

	l->facts = now;
	l->counted += now - before;
	if (resource_share_documents(&l->session->share, l->counted - (now - before), l->counted))
		return 1;
	return err_set(e, ERR_LIMIT, "this session or its tenant uses too much metadata");
}

int package_load_read(struct package_load *l, struct err *e)
{
	int more = 1;

	if (l->is_read)
		return package_view_compare(l->view, l->doc, &l->compared) ? 1 : 0;
	for (int i = 0; i < PIECES && more > 0; i++)
		more = read_piece(l, e);
	if (more > 0)
		return count_facts(l, e);
	l->is_read = more == 0;
	return more == 0 ? 1 : more;
}
