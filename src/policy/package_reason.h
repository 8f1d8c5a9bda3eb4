/* package_reason.h - the texts of refusals of packages. Private to src/policy. */
#pragma once

#include "package_judge.h"
#include "policy_private.h"

/* Refuses: writes the rule ("session packages.deny[3]") and the reason, which begins with the
 * package and ends with the rule. cause: what follows the package, such as "is denied". */
void package_reason_set(struct package_answer *ret, const struct package_question *q,
			enum policy_layer layer, const char *rule, const char *cause, ...)
	PRINTF(5, 6);

#define PACKAGE_AGE_TEXT_MAX 32
/* "3 h", "7 days". */
void package_reason_age(uint64_t ms, char ret[PACKAGE_AGE_TEXT_MAX]);
/* "this session", "this tenant", "this node". */
const char *package_reason_who(enum policy_layer layer);
