/* policy_select.h - what a layer's setting may be: the name of a preset, several of them, or a
 * document of policy.h. Pure. Called by the API, the CLI and cordond's configuration. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "err.h"
#include "policy.h"

#define POLICY_SELECT_NAME_MAX 128
/* Of a session's own document: there are many sessions, and a document costs each process that
 * reads it time, and many times its size in memory. */
#define POLICY_SELECT_SESSION_MAX (128U << 10)
#define POLICY_SELECT_SESSION_RULES 1000U
#define POLICY_SELECT_SESSION_VALUES 3000U /* values in all of its lists and objects */
/* Of its packages member, which costs less: pins and names are kept in tables. */
#define POLICY_SELECT_PACKAGES_MAX (512U << 10)
#define POLICY_SELECT_PACKAGES_VALUES 30000U
#define POLICY_SELECT_VALUES_MAX \
	100000U /* of the documents of node and tenants, which the operator writes */
#define POLICY_SELECT_DEPTH_MAX 64U

/* json: "pypi", ["pypi", "npm"] or {...}. Checked in full; *ret is the document, written again; the
 * caller frees it. Errors as policy_read(). */
int policy_select_read(const char *json, size_t len, enum policy_layer layer, char **ret,
		       struct err *e) MUST_USE;

/* As policy_select_read(), for a value that was parsed with the rest of a request; it is changed.
 */
struct json_t;
int policy_select_value(struct json_t *value, enum policy_layer layer, char **ret,
			struct err *e) MUST_USE;

/* As policy_select_read(), for the text of a setting: presets, separated by commas. */
int policy_select_presets(const char *words, char **ret, struct err *e) MUST_USE;

/* Is a document that policy_select_read() returned "none" and nothing else? Such a session has no
 * network. */
bool policy_select_is_none(const char *document);

/* The names of its presets and, if it may permit more than they do, "custom", joined by "+". A name
 * that would be too long is "custom". It is shown to users, and allow_network() decides by it: a
 * document must never have the name of less than it permits. */
void policy_select_name(const char *document, char ret[POLICY_SELECT_NAME_MAX]);

/* The document as it may be shown: without the password of its proxy and, unless all, without
 * private addresses and the values of headers that rules of the node or tenant set. The caller
 * frees it; NULL: out of memory. */
char *policy_select_shown(const char *document, bool all);
