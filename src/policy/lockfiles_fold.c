/* lockfiles_fold.c - theory of operation
 *
 * The text of a lockfile is a megabyte, of which pins are a tenth, and jansson needs some
 * nanoseconds for each byte of it, each time the document is parsed or written. So the body is
 * walked over once without a tree (json_read.h), the texts are decoded and read one by one, and
 * their pins are put in the place of the list: {"lockfiles": {"npm:a": ["1.0.0 sha512-..."]}}. What
 * is wrong with the rest of the body is left to the parser. */
#include "lockfiles_fold.h"

#include <stdio.h>
#include <string.h>

#include "json_read.h"
#include "package_pins.h"

#define DEPTH_MAX 64
#define NAME_MAX_BYTES 1024U

struct file {
	struct buf name, text;
	bool has_text;
};

static int unknown(const char *at, struct err *e)
{
	return policy_value_fail(e, at, "", "must have a name and a text, and nothing else");
}

static int take_member(struct file *f, struct json_value key, struct json_value v, const char *at,
		       struct err *e)
{
	struct buf *to = json_read_is(key, "name") ? &f->name : &f->text;

	if ((to == &f->text && !json_read_is(key, "text")) || v.kind != JSON_READ_TEXT ||
	    to->len > 0)
		return unknown(at, e);
	f->has_text |= to == &f->text;
	return json_read_text(v, to, e) < 0 ? err_wrap(e, "%.60s", at) : 0;
}

static int read_file(struct file *f, struct json_value v, json_t *pins, const char *at,
		     size_t *left, struct err *e)
{
	struct json_value key, value;
	const char *walk = NULL;

	if (v.kind != JSON_READ_OBJECT)
		return unknown(at, e);
	while (json_read_next(v, &walk, &key, &value))
		if (take_member(f, key, value, at, e) < 0)
			return -1;
	if (!f->has_text || f->name.len == 0 || memchr(f->name.data, '\0', f->name.len) != NULL)
		return unknown(at, e);
	return package_lockfile_take(pins, buf_text(&f->name), buf_text(&f->text), f->text.len, at,
				     left, e);
}

static int read_files(struct json_value list, json_t *pins, struct err *e)
{
	struct json_value none, v;
	const char *walk = NULL;
	size_t left = LOCKFILES_TEXT_MAX;

	for (size_t i = 0; json_read_next(list, &walk, &none, &v); i++) {
		struct file f = { .has_text = false };
		char at[64];
		int done;

		(void)snprintf(at, sizeof(at), "packages.lockfiles[%zu]", i);
		if (i == LOCKFILES_MAX)
			return policy_value_fail(e, at, "", "there may be at most %d files",
						 LOCKFILES_MAX);
		buf_init(&f.name, NAME_MAX_BYTES);
		buf_init(&f.text, LOCKFILES_BODY_MAX);
		done = read_file(&f, v, pins, at, &left, e);
		buf_release(&f.name);
		buf_release(&f.text);
		if (done < 0)
			return -1;
	}
	return 0;
}

/* The body with other bytes in the place of one value. */
static int put_in(const char *body, size_t len, struct json_value old, const char *pins, char **ret,
		  size_t *ret_len, struct err *e)
{
	size_t before = (size_t)(old.p - body), n = strlen(pins), after = len - before - old.n;
	char *text = malloc(before + n + after + 1);

	if (text == NULL)
		return policy_no_memory(e);
	memcpy(text, body, before);
	memcpy(text + before, pins, n);
	memcpy(text + before + n, old.p + old.n, after);
	text[before + n + after] = '\0';
	*ret = text;
	*ret_len = before + n + after;
	return 0;
}

static int fold(const char *body, size_t len, struct json_value list, char **ret, size_t *ret_len,
		struct err *e)
{
	OWN_POLICY_JSON *pins = json_object();
	OWN_MEM char *text = NULL;

	if (pins == NULL)
		return policy_no_memory(e);
	if (read_files(list, pins, e) < 0)
		return -1;
	text = json_dumps(pins, JSON_COMPACT);
	return text == NULL ? policy_no_memory(e) : put_in(body, len, list, text, ret, ret_len, e);
}

/* What is parsed afterwards is bounded as other bodies are. */
static int check_rest(size_t len, struct err *e)
{
	if (len <= LOCKFILES_REST_MAX)
		return 0;
	return err_set_reason(e, REASON_TOO_LARGE,
			      "the body has more than %u bytes besides lockfiles or in their pins",
			      LOCKFILES_REST_MAX);
}

bool lockfiles_are_in(const char *body, size_t len)
{
	static const char word[] = "\"lockfiles\"";

	return len > 0 && memmem(body, len, word, sizeof(word) - 1) != NULL;
}

int lockfiles_fold(const char *body, size_t len, const char *member, char **ret, size_t *ret_len,
		   struct err *e)
{
	struct json_value v;
	struct err why;

	*ret = NULL;
	*ret_len = 0;
	if (!lockfiles_are_in(body, len) || json_read(body, len, DEPTH_MAX, &v, &why) < 0)
		return check_rest(len, e);
	if (member != NULL)
		v = json_read_member(v, member);
	v = json_read_member(json_read_member(v, "packages"), "lockfiles");
	if (v.kind != JSON_READ_ARRAY)
		return check_rest(len, e);
	if (fold(body, len, v, ret, ret_len, e) < 0)
		return member == NULL ? -1 : err_wrap(e, "%s", member);
	if (check_rest(*ret_len, e) == 0)
		return 0;
	lockfiles_fold_free(ret);
	return -1;
}

void lockfiles_fold_free(char **folded)
{
	if (*folded != NULL)
		explicit_bzero(*folded, strlen(*folded));
	free(*folded);
	*folded = NULL;
}
