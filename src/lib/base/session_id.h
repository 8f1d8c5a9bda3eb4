/* session_id.h - the ids of sessions: the only place that makes one and that checks one.
 *
 * An id is 1 to SESSION_ID_MAX - 1 characters of [a-z0-9], so that it can be a label of a host name
 * ("3000-ID.example.com"), a file name and the name of a cgroup. Nothing outside of this file may
 * depend on its length or its first character. Called by the core (make), by the interfaces and by
 * what reads ids back from disk (check).
 *
 * The form of a new id: "i", the name of the node (may be empty), RAND_ID_CHARS random characters.
 * The random part is always last, and the first letter is no hexadecimal digit: ids of `cordon run`
 * are hexadecimal, and a server's keeper refuses those. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define SESSION_ID_MAX 40      /* with its NUL */
#define SESSION_ID_NODE_MAX 23 /* of a node's name, with its NUL */

/* node: "" or what session_id_is_node() accepts. */
void session_id_make(const char *node, char ret_id[SESSION_ID_MAX]);

/* Can these n bytes be an id? */
bool session_id_is_valid(const char *text, size_t n);

/* Check and copy. False: it is not an id, and ret_id is "". */
bool session_id_read(const char *text, size_t n, char ret_id[SESSION_ID_MAX]);

/* Can the name be part of an id? "" is a name. */
bool session_id_is_node(const char *name);
