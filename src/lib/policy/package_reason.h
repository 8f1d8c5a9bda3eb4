/* package_reason.h - writes the reasons of refused package requests. Private to src/lib/policy. */
#pragma once

#include "lib/policy/package_judge.h"
#include "lib/policy/policy_private.h"

/* Refuse: write the rule ("session packages.deny[3]") and the reason, which begins with the package
 * and ends with the rule. cause: the text behind the package, such as "is denied". */
void package_reason_set(struct package_answer *ret, const struct package_question *q,
			enum policy_layer layer, const char *rule, const char *cause, ...)
	PRINTF(5, 6);

#define PACKAGE_AGE_TEXT_MAX 32
/* Write an age such as "3 h" or "7 days". */
void package_reason_age(uint64_t ms, char ret[PACKAGE_AGE_TEXT_MAX]);
/* Return "this session", "this tenant" or "this node". */
const char *package_reason_who(enum policy_layer layer);
