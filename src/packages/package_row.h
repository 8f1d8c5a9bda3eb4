/* package_row.h - tables of requests: how a method, a path and a query fit a row. Pure; private to
 * src/packages. Each ecosystem has one table (package_ECOSYSTEM.c).
 *
 * A pattern is a path; a segment of it is literal or has one token, with literal bytes before and
 * behind it:
 *	{name}, {version}, {file}	one segment, kept
 *	{one}	one segment, not kept
 *	{names}	one segment or more, kept as the name; at most one in a pattern
 *	{rest}	no segment or more, kept as the rest; likewise */
#pragma once

#include "package_request.h"

struct package_span {
	const char *p; /* NULL: not in the pattern */
	size_t n;
};

struct package_row {
	const char *method, *pattern;
	enum package_kind kind;
	enum package_form form;
	const char *query; /* NULL: none; "*": any or none; else exactly this one */
};

struct package_match {
	struct package_span name, version, file, rest, one; /* of the path */
};

struct package_table {
	const struct package_row *rows;
	size_t n;
	/* Reads what fitted into ret, which has the row's kind and form; false: does not fit. */
	bool (*read)(const struct package_row *row, const struct package_match *m,
		     struct package_request *ret);
};

extern const struct package_table package_table_pypi, package_table_npm, package_table_apt,
	package_table_cargo, package_table_go, package_table_git, package_table_oci,
	package_table_maven, package_table_gem;

/* Archives that hosts of repositories make. The query does not count: one of a private repository
 * has a token in it. False: none; ret is not valid. */
bool package_git_archive(const char *method, const char *path, struct package_request *ret);

/* The first row that fits and can be read; false: none, and ret is PACKAGE_OTHER. */
bool package_table_find(enum ecosystem eco, const struct package_table *t, const char *method,
			const char *path, const char *query, struct package_request *ret);

/* Copies without escapes: only '+' may be escaped, since it has two spellings in a normal path.
 * False: another escape, or too long. */
bool package_span_text(struct package_span s, char *ret, size_t cap);

/* Each reads one part into ret, and is true if the row has no such part; false: not well-formed, or
 * different from what was read before. */
bool package_take_name(struct package_span name, struct package_request *ret);
bool package_take_version(struct package_span version, struct package_request *ret);
/* Letters, digits and the signs of files; does not look for a name. */
bool package_take_file(struct package_span file, struct package_request *ret);
