/* mcp_digest.c - the digest of a JSON value that does not depend on how it was written: white space
 * and the order of members do not count, escapes are read first. Numbers count as written. */
#include "lib/mcp/server/mcp_digest.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/hex.h"
#include "lib/base/sha256.h"

/* Kind and length come before the bytes, so two different values never feed the same bytes. */
static void digest_add_length(struct sha256 *h, char kind, size_t n)
{
	char head[32];
	int len = snprintf(head, sizeof(head), "%c%zu:", kind, n);

	sha256_add(h, head, (size_t)len);
}

static void digest_add_scalar(struct sha256 *h, const struct json_node *v)
{
	if (v->kind == JSON_READ_TEXT) {
		digest_add_length(h, 's', v->text.n);
		sha256_add(h, v->text.p, v->text.n);
	} else {
		digest_add_length(h, 'v', v->raw.n);
		sha256_add(h, v->raw.p, v->raw.n);
	}
}

static int digest_by_name(const void *a, const void *b)
{
	const struct json_node *x = *(const struct json_node *const *)a;
	const struct json_node *y = *(const struct json_node *const *)b;
	size_t n = x->text.n < y->text.n ? x->text.n : y->text.n;
	int order = memcmp(x->text.p, y->text.p, n);

	return order != 0 ? order : x->text.n < y->text.n ? -1 : x->text.n > y->text.n;
}

static int digest_add(struct sha256 *h, const struct json_node *v, struct err *e);

static int digest_add_object(struct sha256 *h, const struct json_node *v, struct err *e)
{
	OWN_MEM const struct json_node **names = calloc(v->size + 1U, sizeof(struct json_node *));
	size_t n = 0;

	if (names == NULL)
		return err_sys(e, "cannot make a digest");
	for (const struct json_node *k = json_tree_first(v); k != NULL; k = json_tree_next(v, k))
		names[n++] = k;
	qsort(names, n, sizeof(struct json_node *), digest_by_name);
	digest_add_length(h, 'o', n);
	for (size_t i = 0; i < n; i++) {
		digest_add_scalar(h, names[i]);
		if (digest_add(h, json_tree_value(names[i]), e) < 0)
			return -1;
	}
	return 0;
}

/* Call itself for each level of nesting, of which a tree has at most JSON_TREE_DEPTH_MAX. */
static int digest_add(struct sha256 *h, const struct json_node *v, struct err *e)
{
	if (v->kind == JSON_READ_OBJECT)
		return digest_add_object(h, v, e);
	if (v->kind != JSON_READ_ARRAY) {
		digest_add_scalar(h, v);
		return 0;
	}
	digest_add_length(h, 'a', v->size);
	for (const struct json_node *t = json_tree_first(v); t != NULL; t = json_tree_next(v, t)) {
		if (digest_add(h, t, e) < 0)
			return -1;
	}
	return 0;
}

int mcp_digest(const struct json_node *v, char ret[MCP_DIGEST_MAX], struct err *e)
{
	uint8_t bytes[SHA256_SIZE];
	struct sha256 h;

	sha256_init(&h);
	if (v != NULL && digest_add(&h, v, e) < 0)
		return -1;
	if (v == NULL)
		digest_add_length(&h, 'o', 0);
	sha256_end(&h, bytes);
	hex_encode(bytes, sizeof(bytes), ret);
	return 0;
}
