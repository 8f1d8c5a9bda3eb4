/* policy_text.h - policies out of texts, for unit tests. */
#pragma once

#include "test.h"

#include "lib/policy/policy.h"

/* The layers as one policy; each may be NULL. NULL: e says why not. */
static inline struct policy *policy_of_layers(const char *node, const char *tenant,
					      const char *session, struct err *e)
{
	const char *const layers[POLICY_LAYERS] = { node, tenant, session };
	struct policy *p = NULL;
	char *merged = NULL;

	*e = (struct err){ 0 };
	if (policy_merge(layers, &merged, e) < 0)
		return NULL;
	CHECK(policy_read(merged, strlen(merged), POLICY_LAYERS, &p, e) == 0);
	free(merged);
	return p;
}

/* The same; NULL: the error is printed. */
static inline struct policy *policy_make(const char *node, const char *tenant, const char *session)
{
	struct err e;
	struct policy *p = policy_of_layers(node, tenant, session, &e);

	if (p == NULL)
		printf("# %s\n", e.msg);
	return p;
}

/* Does the error of this text have the words? */
static inline bool policy_error_has(const char *msg, const char *words, const char *text)
{
	if (strstr(msg, words) != NULL)
		return true;
	printf("# '%s' for %s\n", msg, text);
	return false;
}
