/* template_pull.h - cordon template pull: asks the server for an image of a registry, and shows
 * what it does. */
#pragma once

#include "api_call.h"
#include "options.h"

struct template_pull {
	const char *reference;
	const char *name, *secret; /* NULL: none */
	const struct option_list *tags;
	bool quiet; /* no lines about layers */
};

/* *ret_name is the template's, owned by the caller. */
int template_pull(struct api_call *a, const struct template_pull *p, json_t **ret,
		  struct err *e) MUST_USE;
