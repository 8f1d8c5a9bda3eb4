#include "lib/policy/access_record_text.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/own.h"
#include "lib/base/str.h"
#include "lib/json/json_fault.h"

/* Bounds the work for a hostile record. */
#define JSON_MEMBERS_MAX 64

/* The kinds that cordon-egress writes. cordond stores the word, so no other word may pass. */
static const char *const kinds[] = { "dns", "connect", "request", "package", "datagram" };

/* The caller releases the object. Duplicate members are errors: readers differ in which one they
 * would use. */
static json_t *record_text_parse(const char *text, size_t len, struct err *e)
{
	json_error_t why;
	json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);

	if (root == NULL)
		(void)err_set(e, ERR_INVALID, "record: %.100s", json_fault(why.text));
	if (root != NULL && !json_is_object(root)) {
		json_decref(root);
		root = NULL;
		(void)err_set(e, ERR_INVALID, "record: not an object");
	}
	return root;
}

/* A mark may use 63 bits. Counters are bounded below that (ACCESS_RECORD_NUMBER_MAX). */
static int read_up_to(const json_t *root, const char *name, uint64_t max, uint64_t *ret,
		      struct err *e)
{
	const json_t *value = json_object_get(root, name);

	if (!json_is_integer(value) || json_integer_value(value) < 0 ||
	    (uint64_t)json_integer_value(value) > max)
		return err_set(e, ERR_INVALID, "record: %s is not a number", name);
	*ret = (uint64_t)json_integer_value(value);
	return 0;
}

static int read_number(const json_t *root, const char *name, uint64_t *ret, struct err *e)
{
	return read_up_to(root, name, ACCESS_RECORD_NUMBER_MAX, ret, e);
}

static int read_kind(const json_t *root, struct access_record_text *ret, struct err *e)
{
	const char *kind = json_string_value(json_object_get(root, "kind"));

	for (size_t i = 0; kind != NULL && i < COUNT(kinds); i++)
		if (strcmp(kind, kinds[i]) == 0) {
			str_copy(ret->kind, kind);
			return 0;
		}
	return err_set(e, ERR_INVALID, "record: unknown kind");
}

/* The program that made the request: a mark, or the reason why the program is unknown. Members that
 * cordond writes itself are removed, so egress cannot forge them. */
static int read_owner(json_t *root, struct access_record_text *ret, struct err *e)
{
	static const char *const own[] = { "mark",	   "execution_unknown",
					   "execution_id", "session_id",
					   "seq",	   "time" };
	const char *word = json_string_value(json_object_get(root, "execution_unknown"));

	if (json_object_get(root, "mark") != NULL &&
	    read_up_to(root, "mark", INT64_MAX, &ret->mark, e) < 0)
		return -1;
	if (word != NULL && (strlen(word) >= sizeof(ret->unknown) ||
			     word[strspn(word, "abcdefghijklmnopqrstuvwxyz_")] != '\0'))
		return err_set(e, ERR_INVALID, "record: execution_unknown is not a word");
	str_copy(ret->unknown, word == NULL ? "" : word);
	for (size_t i = 0; i < COUNT(own); i++)
		(void)json_object_del(root, own[i]);
	return 0;
}

/* The time from cordon-egress is untrusted. A record with a future time would never expire, so its
 * time becomes the current time. */
static int read_time(json_t *root, struct access_record_text *ret, struct err *e)
{
	uint64_t now = clock_wall_ms();

	if (read_number(root, "time_ms", &ret->time_ms, e) < 0)
		return -1;
	if (ret->time_ms <= now)
		return 0;
	ret->time_ms = now;
	if (json_object_set_new(root, "time_ms", json_integer((json_int_t)now)) < 0)
		return err_set(e, ERR_SYSTEM, "record: out of memory");
	return 0;
}

/* Copy a text cut to the size of ret. The cut never leaves part of a UTF-8 character. */
static void copy_cut(const json_t *root, const char *name, char *ret, size_t size)
{
	const char *value = json_string_value(json_object_get(root, name));
	const char *text = value == NULL ? "" : value;
	size_t n = strnlen(text, size - 1);

	while (n > 0 && text[n] != '\0' && ((unsigned char)text[n] & 0xc0) == 0x80)
		n--;
	memcpy(ret, text, n);
	ret[n] = '\0';
}

/* A number of tokens comes from a model's server. null: it named none. */
static uint64_t read_tokens(const json_t *model, const char *name)
{
	const json_int_t n = json_integer_value(json_object_get(model, name));

	return n < 0 ? 0 : (uint64_t)(n < ACCESS_RECORD_TOKENS_MAX ? n : ACCESS_RECORD_TOKENS_MAX);
}

/* The members of every kind of record. */
static int read_members(json_t *root, struct access_record_text *ret, struct err *e)
{
	const char *verdict = json_string_value(json_object_get(root, "verdict"));

	memset(ret, 0, sizeof(*ret));
	if (json_object_size(root) > JSON_MEMBERS_MAX)
		return err_set(e, ERR_INVALID, "record: more than %d members", JSON_MEMBERS_MAX);
	if (read_kind(root, ret, e) < 0 || read_time(root, ret, e) < 0)
		return -1;
	if (verdict == NULL || (strcmp(verdict, "allow") != 0 && strcmp(verdict, "deny") != 0))
		return err_set(e, ERR_INVALID, "record: no verdict");
	ret->allowed = verdict[0] == 'a';
	copy_cut(root, "name", ret->name, sizeof(ret->name));
	copy_cut(root, "secrets", ret->secrets, sizeof(ret->secrets));
	ret->tokens_in = read_tokens(json_object_get(root, "model"), "input_tokens");
	ret->tokens_out = read_tokens(json_object_get(root, "model"), "output_tokens");
	return 0;
}

/* The members of "package" records. The package is replaced by a copy of its known members. */
static int read_package(json_t *root, struct access_record_text *ret, struct err *e)
{
	json_t *clean;

	copy_cut(root, "reason", ret->reason, sizeof(ret->reason));
	ret->is_package = strcmp(ret->kind, "package") == 0;
	if (!ret->is_package)
		return 0;
	if (package_record_text_read(json_object_get(root, "package"), &ret->package, e) < 0)
		return -1;
	copy_cut(root, "rule", ret->rule, sizeof(ret->rule));
	if ((json_object_get(root, "status") != NULL &&
	     read_number(root, "status", &ret->status, e) < 0) ||
	    (json_object_get(root, "bytes_in") != NULL &&
	     read_number(root, "bytes_in", &ret->bytes, e) < 0))
		return -1;
	clean = package_record_text_write(&ret->package);
	if (clean == NULL || json_object_set_new(root, "package", clean) < 0)
		return err_set(e, ERR_SYSTEM, "record: out of memory");
	return 0;
}

int access_record_text_read(const char *text, size_t len, struct access_record_text *ret,
			    char **ret_text, struct err *e)
{
	json_t *root = record_text_parse(text, len, e);
	int read = root == NULL ? -1 : read_members(root, ret, e);

	*ret_text = NULL;
	if (read == 0)
		read = read_owner(root, ret, e);
	if (read == 0)
		read = read_package(root, ret, e);
	if (read == 0) {
		*ret_text = json_dumps(root, JSON_COMPACT);
		if (*ret_text == NULL)
			read = err_set(e, ERR_SYSTEM, "record: out of memory");
	}
	json_decref(root);
	return read;
}

/* Bytes claimed from a limit but not yet used. */
static int read_claim(const json_t *from, struct record_claim *ret, struct err *e)
{
	return read_number(from, "claimed_in", &ret->in, e) < 0 ||
			       read_number(from, "claimed_out", &ret->out, e) < 0
		       ? -1
		       : 0;
}

/* Without members for claims, all claims are 0. */
static int read_claims(const json_t *root, struct record_counts *ret, struct err *e)
{
	const json_t *rules = json_object_get(root, "rules");

	if (json_object_get(root, "claimed_in") == NULL)
		return 0;
	if (read_claim(root, &ret->own, e) < 0)
		return -1;
	if (json_array_size(rules) > ACCESS_RECORD_TEXT_RULES_MAX)
		return err_set(e, ERR_INVALID, "record: too many rules");
	for (; ret->nrules < json_array_size(rules); ret->nrules++) {
		struct record_claim *claim = &ret->rules[ret->nrules];
		const json_t *rule = json_array_get(rules, ret->nrules);
		const char *name = json_string_value(json_object_get(rule, "rule"));

		if (name == NULL || name[0] == '\0' || strlen(name) >= sizeof(claim->rule))
			return err_set(e, ERR_INVALID, "record: a rule without a name");
		memcpy(claim->rule, name, strlen(name) + 1);
		if (read_claim(rule, claim, e) < 0)
			return -1;
	}
	return 0;
}

int access_record_text_counts(const char *text, size_t len, struct record_counts *ret,
			      struct err *e)
{
	json_t *root = record_text_parse(text, len, e);
	int read = -1;

	*ret = (struct record_counts){ 0 };
	if (root != NULL && read_number(root, "bytes_in", &ret->bytes_in, e) == 0 &&
	    read_number(root, "bytes_out", &ret->bytes_out, e) == 0 &&
	    read_number(root, "requests", &ret->requests, e) == 0 &&
	    read_number(root, "connections", &ret->connections, e) == 0)
		read = read_claims(root, ret, e);
	json_decref(root);
	return read;
}

/* A negative or malformed count becomes 0, since counts are for statistics only. */
static int read_buckets(const json_t *root, struct record_turns *ret, struct err *e)
{
	const json_t *buckets = json_object_get(root, "buckets");

	if (json_array_size(buckets) > ACCESS_RECORD_TEXT_BUCKETS_MAX)
		return err_set(e, ERR_INVALID, "turns: too many buckets");
	for (; ret->nbuckets < json_array_size(buckets); ret->nbuckets++) {
		json_int_t n = json_integer_value(json_array_get(buckets, ret->nbuckets));

		ret->buckets[ret->nbuckets] = n > 0 ? (uint64_t)n : 0;
	}
	return 0;
}

int access_record_text_turns(const char *text, size_t len, struct record_turns *ret, struct err *e)
{
	json_t *root = record_text_parse(text, len, e);
	const char *slowest = json_string_value(json_object_get(root, "slowest"));
	int read = -1;

	*ret = (struct record_turns){ 0 };
	if (slowest != NULL)
		str_copy(ret->slowest, slowest);
	/* The name is shown in texts without escaping. */
	for (char *at = ret->slowest; *at != '\0'; at++)
		if (*at < ' ' || *at > '~' || *at == '"' || *at == '\\')
			*at = '?';
	if (root != NULL && read_number(root, "count", &ret->count, e) == 0 &&
	    read_number(root, "sum_ns", &ret->sum_ns, e) == 0 &&
	    read_number(root, "max_ns", &ret->max_ns, e) == 0 &&
	    read_number(root, "slowest_ns", &ret->slowest_ns, e) == 0)
		read = read_buckets(root, ret, e);
	json_decref(root);
	return read;
}

/* ---- personal data */

struct covering {
	bool (*cover)(void *arg, char *text);
	void *arg;
	bool any, failed;
};

/* "%40" is "@". Returns whether there was an escape. */
static bool undo_escapes(char *text)
{
	char *to = text;
	bool any = false;

	for (const char *at = text; *at != '\0';) {
		unsigned byte = 0;
		int n = 0;

		if (*at == '%' && sscanf(at, "%%%2x%n", &byte, &n) == 1 && n == 3 && byte != 0) {
			*to++ = (char)byte;
			at += 3;
			any = true;
		} else {
			*to++ = *at == '+' ? ' ' : *at;
			any = any || *at == '+';
			at++;
		}
	}
	*to = '\0';
	return any;
}

static void cover_member(struct covering *c, json_t *object, const char *name, bool escaped)
{
	const char *value = json_string_value(json_object_get(object, name));
	OWN_MEM char *text = value == NULL ? NULL : strdup(value);
	OWN_MEM char *plain = text == NULL || !escaped ? NULL : strdup(text);
	bool any;

	if (text == NULL)
		return;
	any = c->cover(c->arg, text);
	if (plain != NULL && undo_escapes(plain) && c->cover(c->arg, plain)) {
		memset(text, '*', strlen(text));
		any = true;
	}
	if (!any)
		return;
	c->any = true;
	/* A cover inside of a character of UTF-8 would be no text. */
	if (json_object_set_new(object, name, json_string(text)) < 0 &&
	    json_object_set_new(object, name, json_string("***")) < 0)
		c->failed = true;
}

/* A reason may show the beginning of the path, cut inside of a thing that is covered there. */
static void cover_shown_path(struct covering *c, json_t *root, const char *path)
{
	const char *covered = json_string_value(json_object_get(root, "path"));
	const char *value = json_string_value(json_object_get(root, "reason"));
	OWN_MEM char *reason = value == NULL ? NULL : strdup(value);

	if (path == NULL || reason == NULL || strcmp(path, covered) == 0)
		return;
	if (strlen(path) != strlen(covered)) { /* it was no text after its cover */
		path = covered = "";
		memset(reason, '*', strlen(reason));
	}
	for (size_t i = 0; value[i] != '\0'; i++)
		for (size_t k = 0; path[k] != '\0' && value[i + k] == path[k]; k++)
			if (covered[k] != path[k])
				reason[i + k] = '*';
	if (json_object_set_new(root, "reason", json_string(reason)) < 0)
		c->failed = true;
}

static void cover_members(struct covering *c, json_t *root)
{
	const char *value = json_string_value(json_object_get(root, "path"));
	OWN_MEM char *path = value == NULL ? NULL : strdup(value);
	json_t *model = json_object_get(root, "model");

	c->failed = value != NULL && path == NULL;
	cover_member(c, root, "path", true);
	cover_member(c, root, "query", true);
	cover_shown_path(c, root, path);
	cover_member(c, root, "reason", true);
	cover_member(c, model, "prompt", false);
	cover_member(c, model, "completion", false);
}

int access_record_text_cover(char **text, struct access_record_text *r,
			     bool (*cover)(void *arg, char *text), void *arg, struct err *e)
{
	struct covering c = { .cover = cover, .arg = arg };
	json_t *root = record_text_parse(*text, strlen(*text), e);
	char *covered;

	if (root == NULL)
		return -1;
	cover_members(&c, root);
	copy_cut(root, "reason", r->reason, sizeof(r->reason));
	covered = c.any && !c.failed ? json_dumps(root, JSON_COMPACT) : NULL;
	json_decref(root);
	if (!c.any && !c.failed)
		return 0;
	if (covered == NULL)
		return err_set(e, ERR_SYSTEM, "record: out of memory");
	free(*text);
	*text = covered;
	return 0;
}
