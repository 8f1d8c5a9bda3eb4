/* audit_types.h - the types of audit records: the only table of them.
 *
 * Every event is a record of the same type. tests/checks/test_audit_types.py compares the table
 * with doc/audit.md and with the types in the source. */
#pragma once

#include <stddef.h>

struct audit_type {
	const char *name;
	const char *code; /* five characters, never given twice and never changed */
	unsigned version; /* of the members of `data` */
	const char *text;
};

/* NULL: there is no such type. */
const struct audit_type *audit_type_find(const char *name);

/* The whole table, in the order of the names. */
const struct audit_type *audit_types_all(size_t *ret_n);
