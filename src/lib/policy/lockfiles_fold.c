/* lockfiles_fold.c - theory of operation
 *
 * A lockfile has a megabyte of text, and a tenth of it is pins. jansson needs some nanoseconds for
 * each byte, each time the document is parsed or written. So this file walks over the body without
 * a tree (json_read.h), decodes and reads the texts one by one, and puts their pins in the place of
 * the list: {"lockfiles": {"npm:a": ["1.0.0 sha512-..."]}}. The parser reports errors in the rest
 * of the body.
 *
 * All of it takes a tenth of a second for the longest texts. So it is done in pieces: each walk
 * over the body is one, and a text is read by LOCK_PIECE bytes (lock.h). */
#include "lib/policy/lockfiles_fold.h"

#include <stdio.h>
#include <string.h>

#include "lib/json/json_read.h"
#include "lib/packages/lock_json.h"
#include "lib/policy/package_pins.h"

/* The parser sees deeper bodies unchanged. */
#define DEPTH_MAX 64
#define NAME_MAX_BYTES 1024U

/* One lockfile of the list, decoded. */
struct file {
	struct buf name, text;
	bool has_text;
	char at[64];		    /* its place, for errors */
	struct lock_reader *reader; /* owned. NULL: not begun */
};

struct lockfiles_folding {
	const char *body, *member;
	size_t len;
	int (*next)(struct lockfiles_folding *f, struct err *e);
	struct json_value all, list;
	const char *walk; /* over the list */
	size_t number;	  /* of the file, and files before it */
	size_t left;	  /* bytes that texts may still have */
	struct file file;
	json_t *pins; /* owned */
	char *folded; /* owned. NULL: the body stays as it is */
	size_t folded_len;
};

static int lockfiles_fold_unknown(const char *at, struct err *e)
{
	return policy_value_fail(e, at, "", "must have a name and a text, and nothing else");
}

/* A second member of the same name is an error, so `to` must still be empty. */
static int take_member(struct file *f, struct json_value key, struct json_value v, const char *at,
		       struct err *e)
{
	struct buf *to = json_read_is(key, "name") ? &f->name : &f->text;

	if ((to == &f->text && !json_read_is(key, "text")) || v.kind != JSON_READ_TEXT ||
	    to->len > 0)
		return lockfiles_fold_unknown(at, e);
	f->has_text |= to == &f->text;
	return json_read_text(v, to, e) < 0 ? err_wrap(e, "%.60s", at) : 0;
}

/* Decode one lockfile. */
static int lockfiles_fold_decode(struct lockfiles_folding *f, struct json_value v, struct err *e)
{
	struct file *x = &f->file;
	struct json_value key, value;
	const char *walk = NULL;

	if (v.kind != JSON_READ_OBJECT)
		return lockfiles_fold_unknown(x->at, e);
	while (json_read_next(v, &walk, &key, &value))
		if (take_member(x, key, value, x->at, e) < 0)
			return -1;
	if (!x->has_text || x->name.len == 0 || memchr(x->name.data, '\0', x->name.len) != NULL)
		return lockfiles_fold_unknown(x->at, e);
	return package_lockfile_check(buf_text(&x->name), x->text.len, x->at, &f->left, e);
}

static void file_release(struct file *x)
{
	lock_reader_free(x->reader);
	buf_release(&x->name);
	buf_release(&x->text);
	*x = (struct file){ .has_text = false };
}

/* Copy the body with other bytes in the place of one value. */
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

/* Bound the text for the parser in the same way as other bodies. */
static int check_rest(size_t len, struct err *e)
{
	if (len <= LOCKFILES_REST_MAX)
		return 0;
	return err_set_reason(e, REASON_TOO_LARGE,
			      "the body has more than %u bytes besides lockfiles or in their pins",
			      LOCKFILES_REST_MAX);
}

/* ---- pieces. Each returns as lockfiles_folding_step(). */

static int next_file(struct lockfiles_folding *f, struct err *e);

/* Build the body with pins instead of texts. */
static int write_pins(struct lockfiles_folding *f, struct err *e)
{
	OWN_MEM char *text = json_dumps(f->pins, JSON_COMPACT);

	if (text == NULL)
		return policy_no_memory(e);
	if (put_in(f->body, f->len, f->list, text, &f->folded, &f->folded_len, e) < 0)
		return -1;
	return check_rest(f->folded_len, e);
}

/* Read a piece of one lockfile, and add its pins. */
static int read_file(struct lockfiles_folding *f, struct err *e)
{
	struct file *x = &f->file;
	const char *name = buf_text(&x->name);
	int more = 1;

	if (x->reader == NULL)
		x->reader = lock_json_reader(name, buf_text(&x->text), x->text.len, f->pins, e);
	else
		more = lock_reader_step(x->reader, e);
	if (x->reader == NULL || more < 0)
		return package_lockfile_fail(name, x->at, e);
	if (more > 0)
		return 1;
	file_release(x);
	f->next = next_file;
	return 1;
}

static int next_file(struct lockfiles_folding *f, struct err *e)
{
	struct file *x = &f->file;
	struct json_value none, v;

	if (!json_read_next(f->list, &f->walk, &none, &v)) {
		f->next = write_pins;
		return 1;
	}
	(void)snprintf(x->at, sizeof(x->at), "packages.lockfiles[%zu]", f->number);
	if (f->number++ == LOCKFILES_MAX)
		return policy_value_fail(e, x->at, "", "there may be at most %d files",
					 LOCKFILES_MAX);
	buf_init(&x->name, NAME_MAX_BYTES);
	buf_init(&x->text, LOCKFILES_BODY_MAX);
	f->next = read_file;
	return lockfiles_fold_decode(f, v, e) < 0 ? -1 : 1;
}

static int find_list(struct lockfiles_folding *f, struct err *e)
{
	struct json_value v = f->all;

	if (f->member != NULL)
		v = json_read_member(v, f->member);
	f->list = json_read_member(json_read_member(v, "packages"), "lockfiles");
	if (f->list.kind != JSON_READ_ARRAY)
		return check_rest(f->len, e);
	f->pins = json_object();
	if (f->pins == NULL)
		return policy_no_memory(e);
	f->left = LOCKFILES_TEXT_MAX;
	f->next = next_file;
	return 1;
}

/* The parser reports a body without JSON. */
static int check_body(struct lockfiles_folding *f, struct err *e)
{
	struct err why;

	if (!lockfiles_are_in(f->body, f->len) ||
	    json_read(f->body, f->len, DEPTH_MAX, &f->all, &why) < 0)
		return check_rest(f->len, e);
	f->next = find_list;
	return 1;
}

/* ---- the whole */

bool lockfiles_are_in(const char *body, size_t len)
{
	static const char word[] = "\"lockfiles\"";

	return len > 0 && memmem(body, len, word, sizeof(word) - 1) != NULL;
}

struct lockfiles_folding *lockfiles_folding_new(const char *body, size_t len, const char *member,
						struct err *e)
{
	struct lockfiles_folding *f = calloc(1, sizeof(*f));

	if (f == NULL) {
		(void)policy_no_memory(e);
		return NULL;
	}
	f->body = body;
	f->len = len;
	f->member = member;
	f->next = check_body;
	return f;
}

int lockfiles_folding_step(struct lockfiles_folding *f, struct err *e)
{
	int more = f->next(f, e);

	if (more >= 0 || f->list.kind != JSON_READ_ARRAY || f->folded != NULL || f->member == NULL)
		return more;
	return err_wrap(e, "%s", f->member);
}

const char *lockfiles_folding_body(const struct lockfiles_folding *f, size_t *ret_len)
{
	*ret_len = f->folded == NULL ? f->len : f->folded_len;
	return f->folded == NULL ? f->body : f->folded;
}

void lockfiles_folding_free(struct lockfiles_folding *f)
{
	if (f == NULL)
		return;
	file_release(&f->file);
	json_decref(f->pins);
	lockfiles_fold_free(&f->folded);
	free(f);
}

int lockfiles_fold(const char *body, size_t len, const char *member, char **ret, size_t *ret_len,
		   struct err *e)
{
	struct lockfiles_folding *f = lockfiles_folding_new(body, len, member, e);
	int more = f == NULL ? -1 : 1;

	*ret = NULL;
	*ret_len = 0;
	while (more > 0)
		more = lockfiles_folding_step(f, e);
	if (more == 0 && f->folded != NULL) {
		*ret = f->folded;
		*ret_len = f->folded_len;
		f->folded = NULL;
	}
	lockfiles_folding_free(f);
	return more;
}

void lockfiles_fold_free(char **folded)
{
	if (*folded != NULL)
		explicit_bzero(*folded, strlen(*folded));
	free(*folded);
	*folded = NULL;
}
