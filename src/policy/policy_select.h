/* policy_select.h - what somebody chose for a layer: a preset by its name, several of them, or a
 * document of policy.h. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "err.h"
#include "policy.h"

#define POLICY_SELECT_NAME_MAX 128
/* Of a session's own document: there are many sessions, and each process that goes by a document
 * pays for it in time and many times its size in memory. */
#define POLICY_SELECT_SESSION_MAX (128U << 10)
#define POLICY_SELECT_SESSION_RULES 1000U
#define POLICY_SELECT_SESSION_VALUES 3000U /* in all of its lists and objects */
#define POLICY_SELECT_VALUES_MAX \
	100000U /* of the node's and tenants' documents, which are the operator's */
#define POLICY_SELECT_DEPTH_MAX 64U

/* json: "pypi", ["pypi", "npm"] or {...}. Checked in full; *ret is the document it means, written
 * by us, the caller's to free. Errors are policy_read()'s. */
int policy_select_read(const char *json, size_t len, enum policy_layer layer, char **ret,
		       struct err *e) MUST_USE;

/* The same for words of a setting: presets, separated by commas. */
int policy_select_presets(const char *words, char **ret, struct err *e) MUST_USE;

/* A document as policy_select_read() wrote it: is it "none" and nothing else? Such a session has no
 * door at all. */
bool policy_select_is_none(const char *document);

/* For people: the names of its presets and, if it says more, "custom", joined by "+". */
void policy_select_name(const char *document, char ret[POLICY_SELECT_NAME_MAX]);

/* The document as it may be shown: without the password of its proxy and, unless all, without what
 * is the operator's own: private addresses, and values of headers that rules of the node or the
 * tenant set. The caller frees it; NULL without memory. */
char *policy_select_shown(const char *document, bool all);
