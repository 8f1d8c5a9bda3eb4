/* pull_spec.h - what a pull is asked for, and the words for what went wrong. For image_pull.c;
 * touches nothing but the texts of the pull. */
#pragma once

#include "image_pull.h"

/* Reads reference, name and tags. Without a name the template is called as the last part of the
 * image's path, with the image's tag ("latest" and digests count as none). */
int pull_spec_read(struct image_pull *p, const struct image_pull_spec *spec,
		   struct err *e) MUST_USE;

/* The host of a registry without its port. */
void pull_spec_host_name(const char *host, char ret[OCI_REF_HOST_MAX]);

/* The error as users see it. word: the registry's own, "" if it had none. */
void pull_spec_explain(const char *reference, const char *word, struct err *e);
