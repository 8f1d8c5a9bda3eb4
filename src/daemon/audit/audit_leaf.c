/* audit_leaf.c - see audit_leaf.h. */
#include "daemon/audit/audit_leaf.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/audit/fact_lines.h"
#include "lib/base/hex.h"
#include "lib/base/own.h"
#include "lib/base/rand.h"
#include "lib/base/sha256.h"
#include "lib/base/utf8.h"
#include "lib/json/json.h"
#include "lib/json/json_read.h"

#define SIDE_MAX ((size_t)AUDIT_SEALED_MAX * 6 * AUDIT_VALUE_MAX + 4096)

static void leaf_add_text(struct json *j, const char *name, const char *value)
{
	if (value != NULL && value[0] != '\0')
		json_text(j, name, value);
}

static void leaf_add_time(struct json *j, uint64_t ms)
{
	static time_t known = -1; /* strftime() once a second */
	static char day[24];
	time_t t = (time_t)(ms / 1000);
	char text[32];
	struct tm tm;

	if (t != known) {
		if (gmtime_r(&t, &tm) == NULL ||
		    strftime(day, sizeof(day), "%Y-%m-%dT%H:%M:%S", &tm) == 0)
			memcpy(day, "1970-01-01T00:00:00", 20);
		known = t;
	}
	(void)snprintf(text, sizeof(text), "%s.%03uZ", day, (unsigned)(ms % 1000));
	json_text(j, "time", text);
}

static void leaf_add_actor(struct json *j, const struct store_actor *who)
{
	const struct store_actor server = { .interface = "server" };

	if (who == NULL || who->interface[0] == '\0')
		who = &server;
	json_open(j, "actor", '{');
	leaf_add_text(j, "key", who->key_id);
	json_text(j, "interface", who->interface);
	leaf_add_text(j, "request", who->request_id);
	leaf_add_text(j, "address", who->address);
	json_close(j, '}');
}

void audit_leaf_commit(const uint8_t salt[AUDIT_SALT], const char *name, const char *value,
		       size_t len, char ret[65])
{
	static const char label[] = "cordon-field"; /* hashed with its zero byte */
	uint8_t hash[SHA256_SIZE];
	struct sha256 s;

	sha256_init(&s);
	sha256_add(&s, label, sizeof(label));
	sha256_add(&s, salt, AUDIT_SALT);
	sha256_add(&s, name, strlen(name) + 1);
	sha256_add(&s, value, len);
	sha256_end(&s, hash);
	hex_encode(hash, sizeof(hash), ret);
}

/* The value as a reader of the JSON gets it: UTF-8, and not too long. Return its length. */
static size_t leaf_clean(const char *value, char ret[AUDIT_VALUE_MAX])
{
	static const char bad[] = "\xef\xbf\xbd";
	const uint8_t *at = (const uint8_t *)value;
	size_t left = strlen(value), n = 0;

	while (left > 0) {
		size_t len = utf8_length(at, left);
		const void *from = len == 0 ? (const void *)bad : at;
		size_t more = len == 0 ? sizeof(bad) - 1 : len;

		if (n + more > AUDIT_VALUE_MAX)
			break;
		memcpy(ret + n, from, more);
		n += more;
		at += len == 0 ? 1 : len;
		left -= len == 0 ? 1 : len;
	}
	return n;
}

static void leaf_seal(struct json *leaf, struct json *side, const struct audit_sealed *v)
{
	uint8_t salt[AUDIT_SALT];
	char hex[2 * AUDIT_SALT + 1], clean[AUDIT_VALUE_MAX], commitment[2 + 65] = "c:";
	size_t len = leaf_clean(v->value, clean);

	rand_bytes(salt, sizeof(salt));
	audit_leaf_commit(salt, v->name, clean, len, commitment + 2);
	json_text(leaf, v->name, commitment);
	hex_encode(salt, sizeof(salt), hex);
	json_open(side, v->name, '{');
	json_text(side, "salt", hex);
	json_bytes(side, "value", clean, len);
	json_close(side, '}');
}

/* Return whether anything is sealed. */
static bool leaf_add_sealed(struct json *leaf, struct json *side, const struct audit_record *r)
{
	const struct audit_sealed behalf = { "on_behalf",
					     r->actor == NULL ? NULL : r->actor->on_behalf };
	bool any = false;

	for (size_t i = 0; i <= AUDIT_SEALED_MAX; i++) {
		const struct audit_sealed *v = i < AUDIT_SEALED_MAX ? &r->sealed[i] : &behalf;

		if (v->value == NULL || v->value[0] == '\0')
			continue;
		if (!any) {
			json_open(leaf, "sealed", '{');
			json_init_heap(side, SIDE_MAX);
			json_open(side, NULL, '{');
		}
		any = true;
		leaf_seal(leaf, side, v);
	}
	if (any) {
		json_close(leaf, '}');
		json_close(side, '}');
	}
	return any;
}

static void leaf_add_facts(struct json *j, const char *facts, bool cut)
{
	uint8_t hash[SHA256_SIZE];
	char hex[2 * SHA256_SIZE + 1];

	if (facts[0] == '\0')
		return;
	json_open(j, "data", '{');
	if (cut) {
		sha256_of(facts, strlen(facts), hash);
		hex_encode(hash, sizeof(hash), hex);
		json_text(j, "too_long_sha256", hex);
	} else {
		fact_lines_json(j, facts);
	}
	json_close(j, '}');
}

static bool leaf_write(struct audit_leaf *l, struct json *side, const struct audit_record *r,
		       const struct audit_type *type, uint64_t seq, const char *facts, bool cut,
		       bool *ret_sealed)
{
	struct json j;

	json_init(&j, l->text, sizeof(l->text));
	json_open(&j, NULL, '{');
	json_uint(&j, "v", 1);
	json_uint(&j, "seq", seq);
	leaf_add_time(&j, r->time_ms);
	json_text(&j, "type", type->name);
	json_text(&j, "code", type->code);
	leaf_add_text(&j, "tenant", r->tenant);
	leaf_add_text(&j, "session", r->session);
	leaf_add_text(&j, "execution", r->execution);
	leaf_add_actor(&j, r->actor);
	leaf_add_facts(&j, facts, cut);
	*ret_sealed = leaf_add_sealed(&j, side, r);
	json_close(&j, '}');
	l->len = j.len;
	return json_ok(&j);
}

int audit_leaf_make(struct audit_leaf *ret, const struct audit_record *r,
		    const struct audit_type *type, uint64_t seq, const char *facts, struct err *e)
{
	struct json side = { 0 };
	bool fits, sealed = false;

	ret->side = NULL;
	fits = leaf_write(ret, &side, r, type, seq, facts, false, &sealed);
	if (!fits) {
		if (sealed)
			json_release(&side);
		fits = leaf_write(ret, &side, r, type, seq, facts, true, &sealed);
	}
	if (!sealed && fits)
		return 0;
	if (fits && json_ok(&side)) {
		ret->side = side.text;
		return 0;
	}
	if (sealed)
		json_release(&side);
	return err_set(e, ERR_SYSTEM, "audit: %s: the record does not fit", type->name);
}

void audit_leaf_release(struct audit_leaf *l)
{
	free(l->side);
	l->side = NULL;
}

bool audit_leaf_is_type(const void *leaf, size_t len, const char *type, size_t type_len)
{
	static const char before[] = ",\"type\":\"";
	const char *at = memmem(leaf, len, before, sizeof(before) - 1);
	size_t left;

	if (at == NULL)
		return false;
	at += sizeof(before) - 1;
	left = len - (size_t)(at - (const char *)leaf);
	return left > type_len && memcmp(at, type, type_len) == 0 && at[type_len] == '"';
}

void audit_leaf_hash_policy(struct sha256 *sum, const char *document, const char *proxy)
{
	OWN_MEM char *plain = NULL;

	if (strstr(document, "\"password\"") != NULL) {
		document = plain = json_read_without(document, proxy, "password");
		assert(plain != NULL);
	}
	sha256_add(sum, document, strlen(document));
}
