/* json_tree_private.h - between json_tree.c and json_tree_names.c. */
#pragma once

#include "json_tree.h"

/* Fails if an object has two members of one name. */
int json_tree_check_names(const struct json_tree *t, struct err *e) MUST_USE;
