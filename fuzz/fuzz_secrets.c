/* A configuration in any bytes; and a header and a body, with secrets that are known: the value is
 * put in only by a request it is bound to, and then only for its placeholder.
 *
 * Bytes: what kind of request (bits: plain, other host, other path, form), then the text. In it the
 * byte 0x01 stands for the placeholder. */
#include "fuzz.h"

#include <jansson.h>

#include "egress/secrets/secrets.h"

unsigned long fuzz_accepted;

#define PLACEHOLDER "cordon_0123456789abcdef0123456789abcdef"
#define HEADER_VALUE "~Value~Value~" /* the same in a header, in JSON and in a form */

static const char order[] =
	"{\"secrets\":["
	"{\"name\":\"H\",\"value\":\"" HEADER_VALUE "\",\"placeholder\":\"" PLACEHOLDER
	"\",\"hosts\":[\"a.example\"],\"paths\":[\"/p/*\"],"
	"\"in\":[\"header\",\"basic\",\"body:f\"]}]}";

static int read_order(const char *text, size_t len, struct secrets **ret, struct err *e)
{
	json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
	int read = secrets_read(root, ret, e);

	json_decref(root);
	return read;
}

static char *expand(const uint8_t *data, size_t n, size_t *ret_len)
{
	char *text = malloc(n * strlen(PLACEHOLDER) + 1);
	size_t len = 0;

	assert(text != NULL);
	for (size_t i = 0; i < n; i++) {
		size_t each = data[i] == 1 ? strlen(PLACEHOLDER) : 1;

		memcpy(text + len, data[i] == 1 ? PLACEHOLDER : (const char *)data + i, each);
		len += each;
	}
	text[len] = '\0';
	*ret_len = len;
	return text;
}

static bool holds(const void *text, size_t n, const char *what)
{
	return memmem(text, n, what, strlen(what)) != NULL;
}

static void try_request(const struct secrets *s, unsigned kind, const char *text, size_t len)
{
	bool bound = (kind & 7) == 0, had = holds(text, len, HEADER_VALUE);
	struct secrets_use u = { .host = (kind & 2) != 0 ? "b.example" : "a.example",
				 .method = "POST",
				 .path = (kind & 4) != 0 ? "/p/x/y" : "/p/x",
				 .verified_tls = (kind & 1) == 0 };
	const char *type =
		(kind & 8) != 0 ? "application/x-www-form-urlencoded" : "application/json";
	struct http1_span name = { "Authorization", 13 };
	static char ret[1 << 16];
	uint8_t *made = NULL;
	int n = secrets_header(s, &u, name, (struct http1_span){ text, len }, ret, sizeof(ret));

	assert(n <= 0 || bound);
	assert(n <= 0 || u.names != NULL);
	n = secrets_body(s, &u, (struct http1_span){ type, strlen(type) }, (const uint8_t *)text,
			 len, &made);
	assert(n <= 0 || (bound && holds(text, len, PLACEHOLDER)));
	assert(n <= 0 || had || holds(made, (size_t)n, HEADER_VALUE));
	secrets_use_release(&u);
	free(made);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct secrets *s = NULL;
	char *text, *exact;
	size_t len;
	struct err e;

	if (size < 1)
		return 0;
	if (read_order((const char *)data, size, &s, &e) == 0) {
		fuzz_accepted++;
		secrets_free(s);
	}
	s = NULL;
	if (read_order(order, strlen(order), &s, &e) < 0)
		abort();
	text = expand(data + 1, size - 1, &len);
	exact = fuzz_copy(text, len);
	try_request(s, data[0], exact, len);
	free(exact);
	free(text);
	secrets_free(s);
	return 0;
}
