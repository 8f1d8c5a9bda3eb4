#include "lib/policy/policy_memo.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/own.h"

/* Each entry may hold megabytes, so few are kept. */
#define KEPT 8

struct policy_memo_entry {
	char *layers[POLICY_LAYERS]; /* owned, NULL: absent */
	char *merged;		     /* owned, NULL: the entry is free */
};

struct policy_memo {
	struct policy_memo_entry kept[KEPT];
	unsigned next; /* the entry replaced next */
	unsigned merges;
};

struct policy_memo *policy_memo_new(void)
{
	return calloc(1, sizeof(struct policy_memo));
}

/* Wipe and free a text, which may hold the password of a proxy. */
static void policy_memo_drop(char *text)
{
	if (text != NULL)
		explicit_bzero(text, strlen(text));
	free(text);
}

static void policy_memo_forget(struct policy_memo_entry *at)
{
	for (size_t i = 0; i < POLICY_LAYERS; i++)
		policy_memo_drop(at->layers[i]);
	policy_memo_drop(at->merged);
	*at = (struct policy_memo_entry){ 0 };
}

void policy_memo_free(struct policy_memo *m)
{
	for (size_t i = 0; m != NULL && i < KEPT; i++)
		policy_memo_forget(&m->kept[i]);
	free(m);
}

static bool is_same(const char *a, const char *b)
{
	if (a == NULL || b == NULL)
		return a == b;
	return strcmp(a, b) == 0;
}

static const struct policy_memo_entry *policy_memo_find(const struct policy_memo *m,
							const char *const layers[POLICY_LAYERS])
{
	for (size_t k = 0; k < KEPT; k++) {
		const struct policy_memo_entry *at = &m->kept[k];
		size_t i = POLICY_LAYERS;

		/* The session's layer differs most often, so it is compared first. */
		while (at->merged != NULL && i > 0 && is_same(at->layers[i - 1], layers[i - 1]))
			i--;
		if (at->merged != NULL && i == 0)
			return at;
	}
	return NULL;
}

static void policy_memo_keep(struct policy_memo *m, const char *const layers[POLICY_LAYERS],
			     const char *merged)
{
	struct policy_memo_entry *at = &m->kept[m->next];
	bool whole = true;

	policy_memo_forget(at);
	for (size_t i = 0; i < POLICY_LAYERS; i++) {
		at->layers[i] = layers[i] == NULL ? NULL : strdup(layers[i]);
		whole &= (layers[i] == NULL) == (at->layers[i] == NULL);
	}
	at->merged = strdup(merged);
	if (!whole || at->merged == NULL)
		policy_memo_forget(at); /* out of memory: do not keep half an entry */
	m->next = (m->next + 1) % KEPT;
}

int policy_memo_merge(struct policy_memo *m, const char *const layers[POLICY_LAYERS], char **ret,
		      struct err *e)
{
	const struct policy_memo_entry *at = policy_memo_find(m, layers);

	if (at != NULL) {
		*ret = strdup(at->merged);
		return *ret == NULL ? err_sys(e, "allocate") : 0;
	}
	m->merges++;
	if (policy_merge(layers, ret, e) < 0)
		return -1;
	policy_memo_keep(m, layers, *ret);
	return 0;
}

unsigned policy_memo_merges(const struct policy_memo *m)
{
	return m->merges;
}
