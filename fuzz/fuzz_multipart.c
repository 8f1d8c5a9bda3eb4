/* How long the pieces are and how much is taken at once (one byte each), then a body with the
 * boundary "b": in pieces and whole it has the same parts, and no content holds a boundary. */
#include "fuzz.h"

#include "front/e2b/envd/multipart.h"

unsigned long fuzz_accepted;

static const char type[] = "multipart/form-data; boundary=b";
static const char delimiter[] = "\r\n--b";

struct taken {
	enum multipart_result result;
	char *out; /* names and content, with marks between them */
	size_t n, cap;
};

static void say(struct taken *t, char mark, const char *text, size_t n)
{
	if (t->n + n + 1 > t->cap) {
		t->cap = 2 * (t->n + n + 1);
		t->out = realloc(t->out, t->cap);
		assert(t->out != NULL);
	}
	if (mark != '\0')
		t->out[t->n++] = mark;
	if (n > 0)
		memcpy(t->out + t->n, text, n);
	t->n += n;
}

static void read_all(const uint8_t *data, size_t size, size_t piece, size_t take, struct taken *t)
{
	struct multipart *m = malloc(sizeof(*m));
	size_t at = 0, content = 0;
	struct err e;

	assert(m != NULL);
	*t = (struct taken){ .result = MULTIPART_MORE };
	if (multipart_init(m, (struct http1_span){ type, sizeof(type) - 1 }, &e) < 0)
		abort();
	for (;;) {
		size_t len = size - at < piece ? size - at : piece, used;
		char *bytes = fuzz_copy(data + at, len);
		struct http1_span part;

		t->result = multipart_read(m, bytes, len, &used, &part);
		assert(used <= len);
		at += used;
		if (t->result == MULTIPART_PART) {
			say(t, 'P', m->part.name, strlen(m->part.name));
			say(t, m->part.has_filename ? 'F' : 'N', m->part.filename,
			    strlen(m->part.filename));
			say(t, '=', NULL, 0);
			content = t->n;
		} else if (t->result == MULTIPART_DATA) {
			assert(part.n > 0);
			part.n = part.n < take ? part.n : take;
			say(t, '\0', part.p, part.n);
			used = multipart_took(m, part.n);
			at += used;
		} else if (t->result == MULTIPART_PART_END) {
			assert(memmem(t->out + content, t->n - content, delimiter,
				      sizeof(delimiter) - 1) == NULL);
			say(t, 'E', NULL, 0);
		}
		free(bytes);
		assert(at <= size);
		if (t->result == MULTIPART_END || t->result == MULTIPART_BAD ||
		    (t->result == MULTIPART_MORE && at == size))
			break;
	}
	assert(multipart_ended(m) == (t->result == MULTIPART_END));
	free(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct taken whole, pieces;

	if (size < 2)
		return 0;
	read_all(data + 2, size - 2, SIZE_MAX, SIZE_MAX, &whole);
	read_all(data + 2, size - 2, (size_t)data[0] + 1, (size_t)data[1] + 1, &pieces);
	assert(whole.result == pieces.result && whole.n == pieces.n);
	assert(whole.n == 0 || memcmp(whole.out, pieces.out, whole.n) == 0);
	fuzz_accepted += whole.result == MULTIPART_END;
	free(whole.out);
	free(pieces.out);
	return 0;
}
