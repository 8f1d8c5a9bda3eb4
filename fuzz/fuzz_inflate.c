/* Any bytes as gzip: no more comes out than the caller takes, and the verdict and the content do
 * not depend on the pieces in which the bytes arrive. */
#include "fuzz.h"

#include "lib/base/inflate.h"

#define OUT_MAX (1U << 20)

unsigned long fuzz_accepted;

struct sse_stream {
	const uint8_t *data;
	size_t size, at, step;
	uint8_t *piece; /* exactly what was given last */
	uint32_t sum;
	size_t out;
};

static ssize_t more(void *arg, const uint8_t **ret, struct err *e)
{
	struct sse_stream *f = arg;
	size_t n = f->size - f->at < f->step ? f->size - f->at : f->step;

	free(f->piece);
	f->piece = fuzz_copy(f->data + f->at, n);
	f->at += n;
	*ret = f->piece;
	return (ssize_t)n;
}

static int take(void *arg, const uint8_t *bytes, size_t len, struct err *e)
{
	struct sse_stream *f = arg;

	assert(len > 0 && len <= 65536);
	f->out += len;
	if (f->out > OUT_MAX)
		return err_set(e, ERR_LIMIT, "enough");
	for (size_t i = 0; i < len; i++)
		f->sum = f->sum * 31 + bytes[i];
	return 0;
}

static int unpack(const uint8_t *data, size_t size, size_t step, struct sse_stream *ret)
{
	struct inflate_io io = { .read = more, .write = take, .arg = ret };
	struct err e = { 0 };
	int rc;

	*ret = (struct sse_stream){ .data = data, .size = size, .step = step };
	rc = inflate_gzip(&io, &e);
	free(ret->piece);
	assert(rc == 0 || (rc == -1 && (e.code == ERR_INVALID || e.code == ERR_LIMIT)));
	assert(rc < 0 || ret->at == size); /* nothing is left over */
	return rc == 0 ? 0 : (int)e.code;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sse_stream whole, pieces;
	int rc = unpack(data, size, size + 1, &whole);

	assert(unpack(data, size, 1, &pieces) == rc);
	assert(rc != 0 || (whole.sum == pieces.sum && whole.out == pieces.out));
	fuzz_accepted += rc == 0;
	return 0;
}
