/* operator_list.h - a list of all rows of one kind, for the operator only: {NAME: [...]}. */
#pragma once

#include "json.h"
#include "request.h"
#include "store.h"

/* Writes one value for each row. */
typedef int operator_list_fn(struct core *c, struct json *j, struct err *e);
void operator_list(struct request *r, const char *name, operator_list_fn *write_all);
