/* spec_template.h - the body of POST /v1/templates as a row of the store. Pure. */
#pragma once

#include "daemon/store/store_template.h"
#include "front/web/json_members.h"
#include "lib/base/buf.h"

struct spec_template {
	struct store_template row; /* its texts are borrowed from the rest */
	json_t *root;
	bool level_given;
	const char *from; /* the template that gives its layers. "": none */
	struct buf layers, mounts, env;
};

/* template_dir: directories may be given by their path below it, or by their name in it. The caller
 * releases *ret, also on failure. */
int spec_template_read(const void *body, size_t len, const char *template_dir,
		       struct spec_template *ret, struct err *e) MUST_USE;
void spec_template_release(struct spec_template *s);
