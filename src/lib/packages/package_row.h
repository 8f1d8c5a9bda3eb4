/* package_row.h - tables of requests, with rows that a method, a path and a query must fit. Pure.
 * Private to src/lib/packages. Each ecosystem has one table (package_ECOSYSTEM.c).
 *
 * A pattern is a path. A segment of it is literal or has one token, with literal bytes before and
 * behind it:
 * 	{name}, {version}, {file}	one segment, kept
 * 	{one}	one segment, not kept
 * 	{names}	one segment or more, kept as the name. At most one in a pattern
 * 	{rest}	no segment or more, kept as the rest. At most one in a pattern */
#pragma once

#include "lib/packages/package_request.h"

/* A part of a path, not terminated. */
struct package_span {
	const char *p; /* NULL: not in the pattern */
	size_t n;
};

struct package_row {
	const char *method, *pattern;
	enum package_kind kind;
	enum package_form form;
	const char *query; /* NULL: none, "*": any or none, else exactly this query */
};

struct package_match {
	struct package_span name, version, file, rest, one; /* parts of the path */
};

struct package_table {
	const struct package_row *rows;
	size_t n;
	/* Read the parts into ret. It already has the row's kind and form. False: they do not
	 * fit. */
	bool (*read)(const struct package_row *row, const struct package_match *m,
		     struct package_request *ret);
};

extern const struct package_table package_table_pypi, package_table_npm, package_table_apt,
	package_table_cargo, package_table_go, package_table_git, package_table_oci,
	package_table_maven, package_table_gem;

/* Read archives made by hosts of repositories. The query does not count: for a private repository
 * it has a token. False: no archive, and ret is not valid. */
bool package_git_archive(const char *method, const char *path, struct package_request *ret);

/* Find the first row that fits and can be read. False: none, and ret is PACKAGE_OTHER. */
bool package_table_find(enum ecosystem eco, const struct package_table *t, const char *method,
			const char *path, const char *query, struct package_request *ret);

/* Copy a part without escapes. Only '+' may be escaped, since it has two spellings in a normal
 * path. False: another escape, or too long. */
bool package_span_text(struct package_span s, char *ret, size_t cap);

/* Each function reads one part into ret. True also if the row has no such part. False: malformed,
 * or different from the value read before. */
bool package_take_name(struct package_span name, struct package_request *ret);
bool package_take_version(struct package_span version, struct package_request *ret);
/* Letters, digits and the signs of files. The name of the package is not read here. */
bool package_take_file(struct package_span file, struct package_request *ret);
