/* policy_select.h - reads the setting of a layer: the name of a preset, several names, or a
 * document of policy.h. Pure. Called by the API, the CLI and cordond's configuration. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/err.h"
#include "lib/policy/policy.h"

#define POLICY_SELECT_NAME_MAX 128
/* The bounds of a session's own document. There are many sessions, and each process that reads a
 * document spends time on it, and many times its size in memory. */
#define POLICY_SELECT_SESSION_MAX (128U << 10)
#define POLICY_SELECT_SESSION_RULES 1000U
#define POLICY_SELECT_SESSION_VALUES 3000U /* values in all of its lists and objects */
/* The bounds of its packages member, which costs less: tables keep pins and names. */
#define POLICY_SELECT_PACKAGES_MAX (512U << 10)
#define POLICY_SELECT_PACKAGES_VALUES 30000U
#define POLICY_SELECT_VALUES_MAX \
	100000U /* of the documents of node and tenants, written by the operator */
#define POLICY_SELECT_DEPTH_MAX 64U

/* Read json: "pypi", ["pypi", "npm"] or {...}. It is checked in full. *ret is the document, written
 * again. The caller frees it. Errors as policy_read(). */
int policy_select_read(const char *json, size_t len, enum policy_layer layer, char **ret,
		       struct err *e) MUST_USE;

/* Read a value parsed with the rest of a request, as policy_select_read() does. The value
 * changes. */
struct json_t;
int policy_select_value(struct json_t *value, enum policy_layer layer, char **ret,
			struct err *e) MUST_USE;

/* Read the text of a setting: presets, separated by commas. */
int policy_select_presets(const char *words, char **ret, struct err *e) MUST_USE;

/* Does the document extend "none" and contain nothing else? Then the session has no network. The
 * document must come from policy_select_read(). */
bool policy_select_is_none(const char *document);

/* The same document with "deny" in place of "none": its alarms stay. The caller frees *ret. */
int policy_select_denied(const char *document, char **ret, struct err *e) MUST_USE;

/* Write the names of the document's presets, and "custom" if it may permit more than they do,
 * joined by "+". A name that would be too long becomes "custom". Users see the name, and
 * allow_network() decides by it. So a document must never have the name of a stricter one. */
void policy_select_name(const char *document, char ret[POLICY_SELECT_NAME_MAX]);

/* Write the document for display: without the password of its proxy and, unless all, without
 * private addresses and the values of headers that rules of the node or tenant set. The caller
 * frees it. NULL: out of memory. */
char *policy_select_shown(const char *document, bool all);
/* The document of one layer for those who may not change it: without the password of its proxy and
 * the values of headers. The caller frees it. NULL: out of memory. */
char *policy_select_reported(const char *document);
