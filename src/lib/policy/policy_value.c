/* policy_value.c - the memory of a policy, and single JSON values of its document: texts, words,
 * lists, numbers, blocks of addresses. Called by the other readers of this folder. Every error
 * names the place, such as "rules[3].host". */
#include "lib/policy/policy_private.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/similar.h"

/* ---- memory of a policy */

/* Zeroed memory after its head, freed with the policy. */
struct policy_chunk {
	struct policy_chunk *next;
	_Alignas(64) char data[];
};

void *policy_alloc(struct policy *p, size_t n, size_t size)
{
	size_t bytes = sizeof(struct policy_chunk);
	struct policy_chunk *c;

	if (__builtin_mul_overflow(n, size, &n) || __builtin_add_overflow(bytes + 63, n, &bytes))
		return NULL;
	bytes -= bytes % 64;
	c = aligned_alloc(64, bytes);
	if (c == NULL)
		return NULL;
	memset(c, 0, bytes);
	c->next = p->chunks;
	p->chunks = c;
	return c->data;
}

int policy_no_memory(struct err *e)
{
	return err_set(e, ERR_SYSTEM, "out of memory for the policy");
}

void policy_free(struct policy *p)
{
	if (p == NULL)
		return;
	while (p->chunks != NULL) {
		struct policy_chunk *c = p->chunks;

		p->chunks = c->next;
		free(c);
	}
	json_decref(p->root);
	json_decref(p->expanded);
	free(p);
}

/* ---- values */

int policy_value_fail(struct err *e, const char *at, const char *name, const char *fmt, ...)
{
	char words[200];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(words, sizeof(words), fmt, ap);
	va_end(ap);
	if (*at == '\0' && *name == '\0')
		return err_set(e, ERR_INVALID, "%s", words);
	return err_set(e, ERR_INVALID, "%s%s%s: %s", at, *at != '\0' && *name != '\0' ? "." : "",
		       name, words);
}

/* The error names the member probably meant. */
static int policy_value_unknown(const char *const *names, size_t n, const char *at, const char *key,
				struct err *e)
{
	struct similar s = { .word = key };

	for (size_t i = 0; i < n; i++)
		similar_offer(&s, names[i]);
	if (s.best == NULL)
		return policy_value_fail(e, at, "", "unknown member '%.60s'", key);
	return policy_value_fail(e, at, "", "unknown member '%.60s'; did you mean '%s'?", key,
				 s.best);
}

/* Unknown members are errors, so that a misspelled restriction is never ignored. */
int policy_value_known(const json_t *object, const char *const *names, size_t n, const char *at,
		       struct err *e)
{
	const char *key;
	json_t *value;

	if (!json_is_object(object))
		return policy_value_fail(e, *at == '\0' ? "document" : at, "", "must be an object");
	/* json_object_foreach() does not change the object. */
	json_object_foreach((json_t *)(uintptr_t)object, key, value)
	{
		size_t i = 0;

		while (i < n && strcmp(names[i], key) != 0)
			i++;
		if (i == n)
			return policy_value_unknown(names, n, at, key, e);
	}
	return 0;
}

/* Texts are shown in terminals and records, so control bytes are refused. */
static bool is_printable(const char *text)
{
	for (; *text != '\0'; text++)
		if ((unsigned char)*text < ' ' || (unsigned char)*text == 0x7f)
			return false;
	return true;
}

int policy_value_text(const json_t *v, size_t max, const char *at, const char *name,
		      const char **ret, struct err *e)
{
	const char *text = json_string_value(v);

	if (v == NULL)
		return 0;
	if (text == NULL)
		return policy_value_fail(e, at, name, "must be a string");
	if (*text == '\0' || strlen(text) > max || !is_printable(text))
		return policy_value_fail(e, at, name, "must have 1 to %zu printable bytes", max);
	*ret = text;
	return 0;
}

int policy_value_bool(const json_t *v, const char *at, const char *name, bool *ret, struct err *e)
{
	if (v == NULL)
		return 0;
	if (!json_is_boolean(v))
		return policy_value_fail(e, at, name, "must be true or false");
	*ret = json_is_true(v);
	return 0;
}

/* The error lists the words. */
static int not_a_word(const char *const *words, size_t n, const char *at, const char *name,
		      struct err *e)
{
	char all[120] = "";
	size_t len = 0;

	for (size_t i = 0; i < n && len < sizeof(all); i++)
		len += (size_t)snprintf(all + len, sizeof(all) - len, "%s%s", i == 0 ? "" : ", ",
					words[i]);
	return policy_value_fail(e, at, name, "must be one of: %s", all);
}

int policy_value_word(const json_t *v, const char *const *words, size_t n, const char *at,
		      const char *name, size_t *ret, struct err *e)
{
	const char *text = json_string_value(v);

	if (v == NULL)
		return 0;
	for (size_t i = 0; text != NULL && i < n; i++) {
		if (strcmp(words[i], text) == 0) {
			*ret = i;
			return 0;
		}
	}
	return not_a_word(words, n, at, name, e);
}

int policy_value_texts(struct policy *p, const json_t *v, size_t max, const char *at,
		       const char *name, const char *const **ret, size_t *ret_n, struct err *e)
{
	size_t n = json_is_array(v) ? json_array_size(v) : 1;
	const char **texts;

	if (v == NULL)
		return 0;
	if (n == 0 || n > POLICY_ITEMS_MAX)
		return policy_value_fail(e, at, name, "must have 1 to %d items", POLICY_ITEMS_MAX);
	texts = policy_alloc(p, n, sizeof(*texts));
	if (texts == NULL)
		return policy_no_memory(e);
	for (size_t i = 0; i < n; i++) {
		const json_t *item = json_is_array(v) ? json_array_get(v, i) : v;

		if (policy_value_text(item, max, at, name, &texts[i], e) < 0)
			return -1;
	}
	*ret = texts;
	*ret_n = n;
	return 0;
}

int policy_value_nets(struct policy *p, const json_t *v, const char *at, const char *name,
		      const struct ip_net **ret, size_t *ret_n, struct err *e)
{
	const char *const *texts = NULL;
	struct ip_net *nets;
	size_t n = 0;

	if (v == NULL)
		return 0;
	if (policy_value_texts(p, v, 64, at, name, &texts, &n, e) < 0)
		return -1;
	nets = policy_alloc(p, n, sizeof(*nets));
	if (nets == NULL)
		return policy_no_memory(e);
	for (size_t i = 0; i < n; i++)
		if (ip_net_read(texts[i], strlen(texts[i]), &nets[i]) < 0)
			return policy_value_fail(e, at, name,
						 "'%s' is not an address or a block such as "
						 "192.0.2.0/24 (no bits set after the prefix)",
						 texts[i]);
	*ret = nets;
	*ret_n = n;
	return 0;
}

/* A limit of 0 would read as "no limit" later, so it is refused. */
int policy_value_limits(const json_t *v, const char *at, struct policy_limits *ret, struct err *e)
{
	static const char *const names[] = { "connections", "requests_per_minute", "bytes_out",
					     "bytes_in", "body_bytes" };
	uint64_t *const to[] = { &ret->connections, &ret->requests_per_minute, &ret->bytes_out,
				 &ret->bytes_in, &ret->body_bytes };
	char place[96];

	if (v == NULL)
		return 0;
	(void)snprintf(place, sizeof(place), "%s%slimits", at, *at != '\0' ? "." : "");
	if (policy_value_known(v, names, COUNT(names), place, e) < 0)
		return -1;
	for (size_t i = 0; i < COUNT(names); i++) {
		const json_t *member = json_object_get(v, names[i]);

		if (member == NULL)
			continue;
		if (!json_is_integer(member) || json_integer_value(member) <= 0)
			return policy_value_fail(e, place, names[i],
						 "must be a whole number above 0");
		*to[i] = (uint64_t)json_integer_value(member);
	}
	return 0;
}
