/* Any bytes as an archive, plain or compressed: members are within their bounds, pieces of sparse
 * files are in order and are the body, and reading ends. */
#include "fuzz.h"

#include "storage/tar_member.h"

unsigned long fuzz_accepted;

struct source {
	const uint8_t *at;
	size_t left;
};

static ssize_t read_source(void *arg, void *ret, size_t cap, struct err *e)
{
	struct source *s = arg;
	size_t n = s->left < cap ? s->left : cap;

	memcpy(ret, s->at, n);
	s->at += n;
	s->left -= n;
	return (ssize_t)n;
}

static void check_member(struct tar_reader *r, const struct tar_member *m)
{
	uint64_t end = 0, sum = 0, got = 0;
	struct err e = { 0 };
	char body[512];
	ssize_t n;

	fuzz_accepted++;
	assert(memchr(m->head.path, '\0', sizeof(m->head.path)) != NULL);
	assert(memchr(m->head.link, '\0', sizeof(m->head.link)) != NULL);
	for (size_t i = 0; i < m->npieces; i++) {
		assert(m->pieces[i].offset >= end);
		end = m->pieces[i].offset + m->pieces[i].len;
		sum += m->pieces[i].len;
	}
	assert(!m->is_sparse || (end <= m->real_size && sum == m->head.size));
	assert(m->is_sparse || m->real_size == m->head.size);
	for (size_t i = 0; i < m->nxattrs; i++)
		assert(strlen(m->xattrs[i].name) < 256);
	while ((n = tar_reader_body(r, body, sizeof(body), &e)) > 0)
		got += (uint64_t)n;
	assert(n < 0 || got == m->head.size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *exact = fuzz_copy(data, size);
	struct source s = { exact, size };
	struct err e = { 0 };
	struct stream_in *in = stream_in_new(read_source, &s, 64U << 20, true, &e);
	struct tar_reader *r = tar_reader_new(in, &e);
	static struct tar_member m;

	while (tar_reader_next(r, &m, &e) == 0)
		check_member(r, &m);
	tar_reader_free(r);
	stream_in_free(in);
	free(exact);
	return 0;
}
