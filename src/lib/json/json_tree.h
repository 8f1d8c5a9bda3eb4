/* json_tree.h - an index of a JSON text: a flat array of nodes, for random access. Pure. For
 * requests whose meaning decides something, in programs that do not link jansson.
 *
 * json_read.h checks the text and decodes its strings. Here, in addition, a name that an object has
 * twice is refused (compared after escapes were read), since two readers may take different values,
 * and the number of values is bounded. Nodes point into the text, which must outlive the tree. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/json/json_read.h"

#define JSON_TREE_DEPTH_MAX 64

struct json_span {
	const char *p; /* NULL: absent */
	size_t n;
};

/* A value, or the name of a member: then the next node is its value. */
struct json_node {
	enum json_kind kind;
	uint32_t skip;	       /* nodes up to the next sibling, this one included */
	uint32_t size;	       /* elements of an array, members of an object */
	struct json_span raw;  /* as it is in the text, quotes and brackets included */
	struct json_span text; /* strings: without quotes, escapes read. May hold NULs */
};

struct json_tree {
	struct json_node *nodes; /* owned. The first is the whole value */
	size_t n;
	struct buf strings; /* owned: texts with escapes */
};

struct json_tree_limits {
	size_t bytes, values; /* names of members do not count as values */
	unsigned depth;	      /* at most JSON_TREE_DEPTH_MAX */
};

/* 1 MiB, 32,768 values, 64 levels. */
extern const struct json_tree_limits json_tree_default;

/* Fail with ERR_LIMIT beyond a limit, ERR_INVALID if it is not such JSON. Messages have no bytes
 * of the text. On failure there is nothing to release. */
int json_tree_read(struct json_tree *t, const char *text, size_t len,
		   const struct json_tree_limits *limits, struct err *e) MUST_USE;
void json_tree_release(struct json_tree *t); /* also for one with all zeros */

static inline const struct json_node *json_tree_root(const struct json_tree *t)
{
	return t->n > 0 ? t->nodes : NULL;
}

/* Walk an array: for (v = json_tree_first(a); v != NULL; v = json_tree_next(a, v)); of an object
 * the nodes are names, and json_tree_value() is the value of each. NULL for other kinds. */
const struct json_node *json_tree_first(const struct json_node *parent);
const struct json_node *json_tree_next(const struct json_node *parent, const struct json_node *v);
static inline const struct json_node *json_tree_value(const struct json_node *name)
{
	return name + 1;
}

/* The value of a member. NULL if there is none, or if o is NULL or no object. */
const struct json_node *json_tree_get(const struct json_node *o, const char *name);
/* The value itself if it is of this kind, else NULL. */
const struct json_node *json_tree_get_kind(const struct json_node *o, const char *name,
					   enum json_kind kind);
/* The text of a string member. Absent otherwise. */
struct json_span json_tree_get_text(const struct json_node *o, const char *name);
bool json_tree_get_bool(const struct json_node *o, const char *name, bool otherwise);
/* A whole number, 64 bits. 1.0 and 1e3 count as whole. False if v is NULL or no such number. */
bool json_tree_int(const struct json_node *v, int64_t *ret);
bool json_tree_number(const struct json_node *v, double *ret);

static inline bool json_tree_is(const struct json_node *v, enum json_kind kind)
{
	return v != NULL && v->kind == kind;
}
bool json_span_is(struct json_span s, const char *text);
/* A copy with a NUL behind it, for the caller to free. NULL if it is absent, holds a NUL, or there
 * is no memory. */
char *json_span_dup(struct json_span s) MUST_USE;

struct json;
/* Write a node as it was, without the white space between tokens: on one line. */
void json_tree_write(struct json *j, const char *name, const struct json_node *v);
