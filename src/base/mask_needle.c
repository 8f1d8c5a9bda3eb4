/* The forms in which a value is looked for, and how each is found: Knuth, Morris and Pratt, so that
 * time is linear whatever the value and the text are. */
#include <string.h>

#include "base64.h"
#include "mask_inside.h"

/* base64 of the value where j bytes stand before it: those characters that it alone decides. */
static int each_base64(const uint8_t *value, size_t len, mask_needle_add *add, void *arg)
{
	size_t cap = len + 2;
	uint8_t *bytes = calloc(1, cap);
	char *text = malloc(BASE64_LENGTH(cap) + 1);
	int got = bytes == NULL || text == NULL ? -1 : 0;

	for (size_t j = 0; got == 0 && j < 3; j++) {
		size_t first = (8 * j + 5) / 6, end = 8 * (j + len) / 6;

		memset(bytes, 0, cap);
		memcpy(bytes + j, value, len);
		base64_encode(bytes, j + len, text);
		got = add(arg, (const uint8_t *)text + first, end - first, false);
		explicit_bzero(text, BASE64_LENGTH(cap) + 1);
	}
	if (bytes != NULL)
		explicit_bzero(bytes, cap);
	free(bytes);
	free(text);
	return got;
}

/* As a JSON string has it. Some writers escape slashes, too. */
static int each_json(const uint8_t *value, size_t len, bool slash, mask_needle_add *add, void *arg)
{
	static const char from[] = "\"\\\n\r\t\b\f/", to[] = "\"\\nrtbf/";
	uint8_t *text = malloc(2 * len);
	size_t n = 0;
	int got = 0;

	if (text == NULL)
		return -1;
	for (size_t i = 0; i < len; i++) {
		const char *at = value[i] == '\0' ? NULL : strchr(from, value[i]);

		if (at == NULL || (value[i] == '/' && !slash)) {
			text[n++] = value[i];
			continue;
		}
		text[n++] = '\\';
		text[n++] = (uint8_t)to[at - from];
	}
	if (n != len)
		got = add(arg, text, n, false);
	explicit_bzero(text, 2 * len);
	free(text);
	return got;
}

int mask_needle_each(const uint8_t *value, size_t len, mask_needle_add *add, void *arg)
{
	if (add(arg, value, len, false) < 0 || each_base64(value, len, add, arg) < 0 ||
	    each_json(value, len, false, add, arg) < 0 || each_json(value, len, true, add, arg) < 0)
		return -1;
	/* What looks like an escape is none in the value itself. */
	return memchr(value, '%', len) == NULL ? 0 : add(arg, value, len, true);
}

static void fill_fail(struct mask_needle *n)
{
	n->fail[0] = n->fail[1] = 0;
	for (size_t i = 1, k = 0; i < n->len; i++) {
		while (k > 0 && n->text[i] != n->text[k])
			k = n->fail[k];
		if (n->text[i] == n->text[k])
			k++;
		n->fail[i + 1] = (uint32_t)k;
	}
}

int mask_needle_make(const uint8_t *text, size_t len, bool raw, struct mask_needle *ret)
{
	*ret = (struct mask_needle){ .raw = raw };
	ret->text = calloc(1, len + 1);
	ret->fail = malloc((len + 1) * sizeof(ret->fail[0]));
	if (ret->text == NULL || ret->fail == NULL) {
		mask_needle_release(ret);
		return -1;
	}
	for (size_t i = 0; i < len; i++)
		if (raw || !mask_is_break(text[i]))
			ret->text[ret->len++] = raw ? text[i] : mask_fold(text[i]);
	if (ret->len < MASK_VALUE_MIN) {
		mask_needle_release(ret);
		return 1;
	}
	fill_fail(ret);
	return 0;
}

void mask_needle_release(struct mask_needle *n)
{
	if (n->text != NULL)
		explicit_bzero(n->text, n->len);
	free(n->text);
	free(n->fail);
	*n = (struct mask_needle){ 0 };
}

bool mask_needle_step(struct mask_needle *n, uint8_t c)
{
	size_t k = n->state == n->len ? n->fail[n->len] : n->state;

	while (k > 0 && n->text[k] != c)
		k = n->fail[k];
	n->state = n->text[k] == c ? k + 1 : 0;
	return n->state == n->len;
}
