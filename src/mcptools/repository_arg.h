/* repository_arg.h - the argument `repository` of create_session: what git clones, and the name of
 * the directory. Its texts become arguments of git, so that only few characters are allowed, and
 * nothing that git could take for an option or another kind of address. Pure. */
#pragma once

#include "err.h"
#include "json_tree.h"

#define REPOSITORY_URL_MAX 1024
#define REPOSITORY_REF_MAX 255
#define REPOSITORY_NAME_MAX 100

struct repository_arg {
	char url[REPOSITORY_URL_MAX + 1];
	char ref[REPOSITORY_REF_MAX + 1]; /* "": the default branch */
	char host[256];
	char name[REPOSITORY_NAME_MAX + 1]; /* the last part of the path, without .git */
};

/* ERR_INVALID names the member. */
int repository_arg_read(const struct json_node *arg, struct repository_arg *ret,
			struct err *e) MUST_USE;
