/* A name (up to the first NUL), then any bytes as a segment, a query and a path: what is decoded
 * has no NUL, fits, and survives being encoded; what a query gives is what walking over it gives;
 * what a pattern takes lies inside the path and is no way out of it. */
#include "fuzz.h"

#include "lib/http/traceparent.h"
#include "lib/http/url.h"

unsigned long fuzz_accepted;

static void check_decode(struct http1_span raw)
{
	size_t cap = raw.n + 1;
	char *text = malloc(cap), *coded = malloc(3 * cap), *again = malloc(cap);
	int n, m;

	assert(text != NULL && coded != NULL && again != NULL);
	n = url_decode(raw, text, cap);
	if (n >= 0) {
		fuzz_accepted++;
		assert((size_t)n <= raw.n && strlen(text) == (size_t)n);
		m = url_encode(text, (size_t)n, coded, 3 * cap);
		assert(m >= n && strlen(coded) == (size_t)m);
		assert(url_decode((struct http1_span){ coded, (size_t)m }, again, cap) == n);
		assert(strcmp(text, again) == 0);
		assert(url_decode_form((struct http1_span){ coded, (size_t)m }, again, cap) == n);
		assert(strcmp(text, again) == 0);
		assert(url_decode(raw, again, (size_t)n) == -1); /* no room for the NUL */
	}
	assert((n < 0) == (url_decode_form(raw, again, cap) < 0));
	free(text);
	free(coded);
	free(again);
}

static void check_query(struct http1_span query, const char *name)
{
	struct http1_span rest = query, item, value;
	char *text = malloc(query.n + 1), *other = malloc(query.n + 1);
	int found = 0, got;

	assert(text != NULL && other != NULL);
	got = url_query_get(query, name, text, query.n + 1);
	while (url_query_next(&rest, &item, &value)) {
		assert(item.p >= query.p && item.n <= query.n);
		assert(memchr(item.p, '&', item.n) == NULL && memchr(item.p, '=', item.n) == NULL);
		if (url_decode_form(item, other, query.n + 1) < 0) {
			assert(got < 0);
			continue;
		}
		if (strcmp(other, name) != 0)
			continue;
		found++;
		if (got > 0) {
			assert(url_decode_form(value, other, query.n + 1) >= 0);
			assert(strcmp(text, other) == 0);
		}
	}
	assert(got < 0 || got == found);
	free(text);
	free(other);
}

static void check_match(struct http1_span path)
{
	static const char *const patterns[] = { "/", "/v1/{id}", "/v1/{id}/a/{b}", "/{a}/{*}" };

	for (size_t i = 0; i < COUNT(patterns); i++) {
		struct url_params params;

		if (!url_match(patterns[i], path, &params))
			continue;
		assert(path.n > 0 && path.p[0] == '/' && params.n <= 2);
		for (size_t p = 0; p < params.n; p++) {
			struct http1_span s = params.raw[p];
			char text[4];

			assert(s.p > path.p && s.n <= (size_t)(path.p + path.n - s.p));
			if (i == 3 && p == 1) /* takes all */
				continue;
			assert(s.n > 0 && memchr(s.p, '/', s.n) == NULL);
			if (url_decode(s, text, sizeof(text)) >= 0)
				assert(strcmp(text, ".") != 0 && strcmp(text, "..") != 0);
		}
	}
}

/* Its own result is valid, and stays. */
static void check_trace(struct http1_span all)
{
	char trace[TRACEPARENT_MAX], again[TRACEPARENT_MAX];

	if (!traceparent_read(all.p, all.n, trace))
		return;
	assert(strlen(trace) == TRACEPARENT_MAX - 1);
	if (memcmp(trace, "00", 2) == 0)
		assert(traceparent_read(trace, strlen(trace), again) && strcmp(trace, again) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *nul = size > 0 ? memchr(data, '\0', size) : NULL;
	size_t split = nul == NULL ? 0 : (size_t)(nul - data);
	size_t begin = nul == NULL ? 0 : split + 1;
	char *name = fuzz_text(data, split), *text = fuzz_copy(data + begin, size - begin);
	struct http1_span all = { text, size - begin };

	check_decode(all);
	check_query(all, name);
	check_match(all);
	check_trace(all);
	free(name);
	free(text);
	return 0;
}
