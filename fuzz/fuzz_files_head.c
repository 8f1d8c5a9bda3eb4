/* The head of a request for files: whatever is in it, what we make of it is bounded and clean
 * enough for a header, a date or an argument. */
#include "fuzz.h"

#include "front/e2b/base/condition.h"
#include "lib/http/http1.h"
#include "front/e2b/envd/files_head.h"

unsigned long fuzz_accepted;

static void check_dates(const struct http1_request *q)
{
	char text[CONDITION_DATE_MAX];
	int64_t s, again;

	for (size_t i = 0; i < q->headers_n; i++) {
		if (!condition_read_date(q->headers[i].value, &s))
			continue;
		assert(condition_write_date(s, text));
		assert(condition_read_date((struct http1_span){ text, strlen(text) }, &again));
		assert(again == s && http1_span_is(q->headers[i].value, text));
	}
}

static void check_conditions(const struct http1_request *q)
{
	bool whole = false;
	enum condition c = condition_check(q, 784111777, &whole);

	assert(condition_given(q) || (c == CONDITION_SEND && !whole));
	(void)condition_takes_identity(q);
}

static void check_post(const struct http1_request *q)
{
	static struct post_head h;
	struct err e;

	if (post_head_read(q, &h, &e) < 0) {
		assert(e.code == ERR_INVALID);
		return;
	}
	assert(!(h.is_form && h.gzip) && strlen(h.meta) < sizeof(h.meta));
	for (const char *p = h.meta; *p != '\0'; p = strchr(p, '\n') + 1)
		assert(strchr(p, '\n') != NULL && strcspn(p, "=") > 0 &&
		       strcspn(p, "=") < strcspn(p, "\n"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size), header[DISPOSITION_MAX];
	static struct http1_request q;
	struct http1_fault fault;

	disposition_write(text, header);
	assert(http1_is_value(header, strlen(header)));
	assert(http1_is_value(disposition_type(text), strlen(disposition_type(text))));
	if (http1_request_read(text, size, &q, &fault) > 0) {
		fuzz_accepted++;
		check_dates(&q);
		check_conditions(&q);
		check_post(&q);
	}
	free(text);
	return 0;
}
