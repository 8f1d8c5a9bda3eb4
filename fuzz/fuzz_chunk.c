/* How long the pieces are (and its first bit: is it the body of an answer), how much is taken at
 * once, how much body is allowed (one byte each), then a chunked body: in pieces and whole it
 * decodes to the same bytes and ends in the same place; what is decoded is no more than allowed,
 * and encoded again it is the same. */
#include "fuzz.h"

#include "lib/http/chunk.h"

unsigned long fuzz_accepted;

struct decoded {
	enum chunk_result result;
	size_t used, n;
	char *bytes;
};

static bool of_answer;

static void decode(const uint8_t *data, size_t size, size_t piece, size_t take, uint64_t max,
		   struct decoded *ret)
{
	struct chunk c;

	if (of_answer)
		chunk_init_answer(&c, max);
	else
		chunk_init(&c, max);
	*ret = (struct decoded){ .result = CHUNK_MORE, .bytes = fuzz_copy(data, size) };
	while (ret->result == CHUNK_MORE || ret->result == CHUNK_DATA) {
		size_t len = size - ret->used < piece ? size - ret->used : piece, used;
		char *bytes = fuzz_copy(data + ret->used, len);
		struct http1_span part;

		ret->result = chunk_read(&c, bytes, len, &used, &part);
		assert(used <= len && (ret->result == CHUNK_DATA) == (part.n > 0));
		ret->used += used;
		if (ret->result == CHUNK_DATA) {
			assert(part.p == bytes + used && part.n <= len - used);
			part.n = part.n < take ? part.n : take;
			assert(ret->n + part.n <= size);
			memcpy(ret->bytes + ret->n, part.p, part.n);
			ret->n += part.n;
			ret->used += part.n;
			chunk_took(&c, part.n);
		}
		free(bytes);
		if (ret->result == CHUNK_MORE) {
			assert(used == len);
			if (ret->used == size)
				break;
		}
	}
	assert(c.total == ret->n && ret->n <= max && ret->used <= size);
}

static void encode_again(const struct decoded *d)
{
	size_t size = d->n + CHUNK_HEAD_MAX + sizeof(CHUNK_TAIL CHUNK_LAST), n = 0;
	char *text = malloc(size);
	struct decoded again;

	assert(text != NULL);
	if (d->n > 0) {
		n = chunk_head(text, d->n);
		memcpy(text + n, d->bytes, d->n);
		n += d->n;
		memcpy(text + n, CHUNK_TAIL, 2);
		n += 2;
	}
	memcpy(text + n, CHUNK_LAST, sizeof(CHUNK_LAST) - 1);
	n += sizeof(CHUNK_LAST) - 1;
	decode((uint8_t *)text, n, SIZE_MAX, SIZE_MAX, d->n, &again);
	assert(again.result == CHUNK_END && again.used == n && again.n == d->n);
	assert(memcmp(again.bytes, d->bytes, d->n) == 0);
	free(again.bytes);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct decoded whole, pieces;

	if (size < 3)
		return 0;
	of_answer = (data[0] & 0x80) != 0;
	decode(data + 3, size - 3, SIZE_MAX, SIZE_MAX, data[2], &whole);
	decode(data + 3, size - 3, (size_t)(data[0] & 0x7f) + 1, (size_t)data[1] + 1, data[2],
	       &pieces);
	assert(whole.result == pieces.result && whole.n == pieces.n && whole.used == pieces.used);
	assert(memcmp(whole.bytes, pieces.bytes, whole.n) == 0);
	if (whole.result == CHUNK_END) {
		fuzz_accepted++;
		encode_again(&whole);
	}
	free(whole.bytes);
	free(pieces.bytes);
	return 0;
}
