#include "cmd/client/kept_output.h"

#include <stdio.h>
#include <stdlib.h>

#include "lib/base/base64.h"
#include "lib/base/own.h"

void kept_output_init(struct kept_output *k)
{
	k->cut = false;
	buf_init(&k->out, KEPT_OUTPUT_MAX);
	buf_init(&k->err, KEPT_OUTPUT_MAX);
}

void kept_output_release(struct kept_output *k)
{
	buf_release(&k->out);
	buf_release(&k->err);
}

void kept_output_take(struct kept_output *k, bool is_err, const uint8_t *bytes, size_t n)
{
	struct buf *b = is_err ? &k->err : &k->out;
	size_t room = b->cap - b->len;
	struct err e;

	if (n > room)
		k->cut = true;
	if (buf_add(b, bytes, n > room ? room : n, &e) < 0)
		k->cut = true;
}

static json_t *coded(const struct buf *b)
{
	OWN_MEM char *text = malloc(BASE64_LENGTH(b->len) + 1);

	if (text == NULL)
		return NULL;
	base64_encode(b->data, b->len, text);
	return json_string(text);
}

static int add(json_t *execution, const char *name, struct buf *b)
{
	json_t *text = json_stringn(buf_text(b), b->len); /* NULL: not UTF-8 */
	char member[32];

	(void)snprintf(member, sizeof(member), "%s%s", name, text == NULL ? "_base64" : "");
	return json_object_set_new(execution, member, text == NULL ? coded(b) : text);
}

int kept_output_add(struct kept_output *k, json_t *execution, struct err *e)
{
	if (add(execution, "stdout", &k->out) < 0 || add(execution, "stderr", &k->err) < 0 ||
	    json_object_set_new(execution, "inline_truncated", json_boolean(k->cut)) < 0)
		return err_set(e, ERR_SYSTEM, "out of memory");
	return 0;
}
