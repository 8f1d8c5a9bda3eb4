/* spec_recipe.h - reads the body that starts a build: TemplateBuildStartV2 of E2B's clients, which
 * the native interface uses, too. Unknown members are ignored: clients leave some of their own in
 * it. Pure. */
#pragma once

#include "daemon/images/recipe.h"

/* ERR_INVALID, naming the member. The caller calls recipe_release() in either case. */
int spec_recipe_read(const void *body, size_t len, struct recipe *ret, struct err *e) MUST_USE;
